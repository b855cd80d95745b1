// Compiled once: ATen's headers take seconds for every file otherwise.
#include <ATen/ATen.h>
