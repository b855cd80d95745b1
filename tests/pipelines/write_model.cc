// write-model DIRECTORY [CHANNELS]: the engine tests' random model, for tests that have no
// LibTorch.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "../engine/random_model.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: write-model DIRECTORY [CHANNELS]\n";
    return 2;
  }
  auto config = normalcrafter::test::tiny_config();
  if (argc > 2) {
    for (auto& level : config.unet.levels) level.channels = std::atoi(argv[2]);
  }
  normalcrafter::test::write_model(argv[1], config);
}
