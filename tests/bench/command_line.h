// The options of the bench programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace normalcrafter::bench {

/// "--name value" pairs into the variables that were added, which hold the defaults.
class CommandLine {
 public:
  /// `summary` heads the help: what the program does.
  explicit CommandLine(std::string summary) : summary_(std::move(summary)) {}

  /// A number of at least 1.
  void add(const std::string& name, int& value, const std::string& help);
  /// Numbers of at least 1, separated by commas.
  void add(const std::string& name, std::vector<int>& values, const std::string& help);
  /// Any text, or one of `choices` if there are any.
  void add(const std::string& name, std::string& value, const std::string& help,
           const std::vector<std::string>& choices = {});

  /// False if help was asked for. Throws std::invalid_argument, telling what is wrong.
  bool parse(const std::vector<std::string>& arguments) const;
  std::string help() const;

 private:
  struct Option {
    std::string name;
    std::string help;
    std::function<void(const std::string&)> set;
  };
  const Option& find(const std::string& name) const;

  std::string summary_;
  std::vector<Option> options_;
};

}  // namespace normalcrafter::bench
