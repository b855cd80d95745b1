#include "command_line.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace normalcrafter::bench {
namespace {

int number(const std::string& name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1)
    throw std::invalid_argument(name + " takes numbers from 1 up, not \"" + text + "\"");
  return value;
}

std::vector<int> numbers(const std::string& name, const std::string& text) {
  std::vector<int> result;
  std::istringstream items(text + ",");
  for (std::string item; std::getline(items, item, ',');) result.push_back(number(name, item));
  return result;
}

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string result;
  for (const auto& text : texts) result += (result.empty() ? "" : between) + text;
  return result;
}

std::string text_of(const std::vector<int>& values) {
  std::vector<std::string> texts;
  for (const int value : values) texts.push_back(std::to_string(value));
  return joined(texts, ",");
}

}  // namespace

void CommandLine::add(const std::string& name, int& value, const std::string& help) {
  options_.push_back({name, help + " (" + std::to_string(value) + ")",
                      [name, &value](const std::string& text) { value = number(name, text); }});
}

void CommandLine::add(const std::string& name, std::vector<int>& values, const std::string& help) {
  options_.push_back({name, help + " (" + text_of(values) + ")",
                      [name, &values](const std::string& text) { values = numbers(name, text); }});
}

void CommandLine::add(const std::string& name, std::string& value, const std::string& help,
                      const std::vector<std::string>& choices) {
  const std::string possible = joined(choices, ", ");
  const auto set = [=, &value](const std::string& text) {
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
      throw std::invalid_argument(name + " is one of " + possible + ", not \"" + text + "\"");
    value = text;
  };
  options_.push_back(
      {name, choices.empty() ? help : help + ": " + possible + " (" + value + ")", set});
}

bool CommandLine::parse(const std::vector<std::string>& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (arguments[i] == "--help") return false;
    const Option& option = find(arguments[i]);
    if (i + 1 == arguments.size()) throw std::invalid_argument(option.name + " lacks its value");
    option.set(arguments[i + 1]);
  }
  return true;
}

std::string CommandLine::help() const {
  std::ostringstream text;
  text << summary_ << "\n";
  for (const Option& option : options_) {
    text << "  " << option.name
         << std::string(option.name.size() < 24 ? 24 - option.name.size() : 1, ' ') << option.help
         << "\n";
  }
  return text.str();
}

const CommandLine::Option& CommandLine::find(const std::string& name) const {
  for (const Option& option : options_)
    if (option.name == name) return option;
  throw std::invalid_argument("unknown option \"" + name + "\"; --help lists them");
}

}  // namespace normalcrafter::bench
