// Opens the engine library at run time, so that the plugin loads where LibTorch is missing.
#pragma once

#include <string>

#include "normalcrafter/engine.h"

namespace normalcrafter {

/// The process's engine. Looked for at the path in the environment variable NORMALCRAFTER_ENGINE if
/// that is set, else beside the plugin (build tree, installation), else by the dynamic linker. With
/// the LibTorch of the directory in NORMALCRAFTER_LIBTORCH if that is set, else of the engine's run
/// path. The library is never closed, since LibTorch does not survive it. Throws Error
/// DeviceUnavailable with the linker's reason.
Engine& load_engine();

/// Directory of the plugin's own file, absolute and without links.
std::string plugin_directory();

/// What was installed as `configured`, an absolute path, at its place relative to the plugin: an
/// installation may have been moved as a whole, or unpacked somewhere else.
std::string beside_plugin(const std::string& configured);

}  // namespace normalcrafter
