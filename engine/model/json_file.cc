#include "model/json_file.h"

#include <set>
#include <span>
#include <vector>

#include "model/in_quotes.h"
#include "model/input_file.h"
#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

constexpr std::uint64_t kLargestFile = 64'000'000;
constexpr std::size_t kDeepest = 32;

std::string read_text(const std::string& path) {
  const InputFile file(path);
  if (file.size() == 0) throw Error(ErrorCode::InvalidModel, path + ": is empty");
  if (file.size() > kLargestFile) {
    throw Error(ErrorCode::InvalidModel,
                path + ": has " + std::to_string(file.size()) + " bytes, too many for JSON");
  }
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

nlohmann::json read_json_object(const std::string& path) {
  using nlohmann::json;
  const std::string text = read_text(path);
  // The lexer takes a NUL byte for the end of its input.
  if (text.find('\0') != std::string::npos) {
    throw Error(ErrorCode::InvalidModel, path + ": is not JSON: it holds a NUL byte");
  }

  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, json::parse_event_t event, const json& parsed) {
    if (static_cast<std::size_t>(depth) > kDeepest) {
      throw Error(ErrorCode::InvalidModel, path + ": is nested too deeply");
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw Error(ErrorCode::InvalidModel, path + ": has the key " + in_quotes(key) + " twice");
      }
    }
    return true;
  };
  json result;
  try {
    result = json::parse(text, watch);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::InvalidModel, path + ": is not JSON: " + error.what());
  }
  if (!result.is_object()) {
    throw Error(ErrorCode::InvalidModel, path + ": is not a JSON object");
  }
  return result;
}

}  // namespace normalcrafter
