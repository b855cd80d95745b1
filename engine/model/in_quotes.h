// Text that came from a file, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace normalcrafter {

/// `text` in double quotes (std::quoted would win the overload for std::string). Control characters
/// (a name in a broken file may hold any, NUL included, which would end the message early) become
/// \xNN, and what is longer than a message can bear is cut.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      result += c;
    }
  }
  if (text.size() > kLongest) result += "...";
  return result + '"';
}

}  // namespace normalcrafter
