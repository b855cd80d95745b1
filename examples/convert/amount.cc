#include "amount.h"

#include <cmath>
#include <optional>
#include <regex>

#include "failure.h"

namespace normalcrafter::convert {
namespace {

constexpr double kSecond = 1e9;
// Three hundred years of nanoseconds fill 63 bits; nothing that is a clip comes near.
constexpr double kLongest = 9e18;

std::optional<double> seconds_of(const std::string& text) {
  std::smatch part;
  static const std::regex unit(R"((\d+(?:\.\d*)?|\.\d+)(ms|s|m|min|h))");
  if (std::regex_match(text, part, unit)) {
    const std::string name = part[2];
    const double scale = name == "ms" ? 1e-3 : name == "s" ? 1 : name == "h" ? 3600 : 60;
    return std::stod(part[1]) * scale;
  }
  static const std::regex clock(R"((?:(\d+):)?(\d+):([0-5]?\d(?:\.\d*)?))");
  if (std::regex_match(text, part, clock)) {
    const double hours = part[1].matched ? std::stod(part[1]) : 0;
    return (hours * 60 + std::stod(part[2])) * 60 + std::stod(part[3]);
  }
  return std::nullopt;
}

}  // namespace

Amount parse_amount(const std::string& option, const std::string& text) {
  static const std::regex frames(R"(\d{1,18})");
  if (std::regex_match(text, frames)) return {Amount::Unit::Frames, std::stoll(text)};
  const auto seconds = seconds_of(text);
  if (!seconds || *seconds * kSecond > kLongest) {
    throw Failure(Status::Usage, "--" + option + "=" + text +
                                     ": neither a number of frames nor a time such as 2.5s, 800ms "
                                     "or 1:02.5");
  }
  return {Amount::Unit::Nanoseconds, std::llround(*seconds * kSecond)};
}

std::string to_string(const Amount& amount) {
  if (amount.unit == Amount::Unit::Frames) return std::to_string(amount.value);
  std::string fraction = std::to_string(amount.value % 1'000'000'000);
  fraction.insert(0, 9 - fraction.size(), '0');
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return std::to_string(amount.value / 1'000'000'000) + (fraction.empty() ? "" : "." + fraction) +
         "s";
}

}  // namespace normalcrafter::convert
