// Errors that elements post, in words for the user.
#pragma once

#include <gst/gst.h>

#include <string>

#include "failure.h"

namespace normalcrafter::convert {

/// What an element is for.
enum class Role { Input, Element, Output };

/// The kind of an element's error. `begun`: frames have come from the input.
Status status_of(Role role, GQuark domain, int code, bool begun);

/// `subject`: the input's or the output's name, which the message may lack; or "".
Failure failure_of(GstMessage* error, Role role, const std::string& subject, bool begun);

/// Whether an error is that a plugin is not installed.
bool is_missing_plugin(GstMessage* error);

/// The text of a warning message.
std::string warning_text(GstMessage* warning);

}  // namespace normalcrafter::convert
