// Small JSON files from a model directory.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace normalcrafter {

/// The file's top-level object. Throws Error InvalidModel when it is not JSON, not an object, has a
/// key twice (which of the two counts would depend on the reader), is nested deeper than 32 levels
/// or larger than 64 MB; NotFound or OpenRead.
nlohmann::json read_json_object(const std::string& path);

}  // namespace normalcrafter
