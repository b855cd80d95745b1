#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace normalcrafter::convert {
namespace {

constexpr int kBar = 20;
constexpr double kSlow = 2;  // frames a second; where it is faster the numbers of frames are enough

int columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : "%.1f", value);
  return text;
}

std::string frames_text(const Progress& progress) {
  const std::string of = progress.total ? "/" + std::to_string(*progress.total) : "";
  std::string text = std::to_string(progress.done) + of + " frames";
  if (progress.rate <= 0) return text;
  text += ", " + one_decimal(progress.rate) + " fps";
  if (progress.total && progress.stage == Progress::Stage::Running)
    text += ", " + clock_text(progress.left) + " left";
  return text;
}

std::string bar(const Progress& progress) {
  if (!progress.total || *progress.total <= 0) return "";
  const auto full = static_cast<std::size_t>(
      std::clamp<std::int64_t>(kBar * progress.done / *progress.total, 0, kBar));
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]  ";
}

// Between the frames of one window and of the next.
std::string network_text(const Progress& progress) {
  if (progress.network.empty() || (progress.done > 0 && progress.rate >= kSlow)) return "";
  return "; " + progress.network + " " + std::to_string(progress.network_percent) + " %";
}

/// A file's name may be no UTF-8, which JSON has to be.
std::string dump(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_json(const nlohmann::ordered_json& object) {
  std::printf("%s\n", dump(object).c_str());
  std::fflush(stdout);
}

}  // namespace

void Speed::frame(double now) {
  last_ = now;
  ++frames_;
}

double Speed::rate() const {
  const double seconds = last_ - start_;
  return seconds > 0 ? static_cast<double>(frames_) / seconds : 0;
}

double Speed::left(std::int64_t total, double now) const {
  if (rate() <= 0) return 0;
  const double needed = static_cast<double>(std::max<std::int64_t>(total - frames_, 0)) / rate();
  return std::max(needed - (now - last_), 0.0);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%d:%02d:%02d", static_cast<int>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(whole / 60),
                  static_cast<int>(whole % 60));
  }
  return text;
}

std::string progress_text(const Progress& progress, int columns) {
  std::string text;
  switch (progress.stage) {
    case Progress::Stage::Starting:
      text = "opening the input";
      break;
    case Progress::Stage::Loading:
      text = "loading the model, " + std::to_string(progress.percent) + " %, " +
             std::to_string(progress.read) + " frames read";
      break;
    case Progress::Stage::Running:
      text = progress.done > 0
                 ? bar(progress) + frames_text(progress)
                 : "first window of frames, " + std::to_string(progress.read) + " frames read";
      text += network_text(progress);
      break;
    case Progress::Stage::Stopping:
      text = "stopping: " + frames_text(progress);
      break;
  }
  if (columns > 0 && text.size() > static_cast<std::size_t>(columns))
    text.resize(static_cast<std::size_t>(columns));
  return text;
}

std::string progress_json(const Progress& progress) {
  static constexpr const char* kStages[] = {"starting", "loading", "running", "stopping"};
  nlohmann::ordered_json object = {{"event", "progress"},
                                   {"stage", kStages[static_cast<int>(progress.stage)]}};
  if (progress.stage == Progress::Stage::Loading) object["percent"] = progress.percent;
  object["read"] = progress.read;
  object["frames"] = progress.done;
  if (progress.total) object["total"] = *progress.total;
  if (progress.rate > 0) {
    object["fps"] = progress.rate;
    if (progress.total) object["seconds_left"] = progress.left;
  }
  if (!progress.network.empty()) {
    object["network"] = progress.network;
    object["network_percent"] = progress.network_percent;
  }
  return dump(object);
}

Reporter::Reporter(ProgressMode mode) : mode_(mode), terminal_(isatty(STDERR_FILENO) != 0) {}

unsigned Reporter::interval() const {
  if (mode_ == ProgressMode::Json) return 1000;
  return terminal_ ? 200 : 5000;
}

void Reporter::line(const std::string& text, bool stays) {
  if (terminal_) {
    std::fprintf(stderr, "%s\x1b[K%s%s", drawn_ ? "\r" : "", text.c_str(), stays ? "\n" : "");
    drawn_ = !stays;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::fflush(stderr);
}

void Reporter::progress(const Progress& progress) {
  if (mode_ == ProgressMode::Json) {
    std::printf("%s\n", progress_json(progress).c_str());
    std::fflush(stdout);
  } else if (mode_ == ProgressMode::Bar) {
    line(progress_text(progress, terminal_ ? columns() - 1 : 0), false);
  }
}

void Reporter::say(const std::string& text) {
  if (mode_ == ProgressMode::Json) {
    print_json({{"event", "message"}, {"message", text}});
  } else if (mode_ == ProgressMode::Bar) {
    line(text, true);
  }
}

void Reporter::warn(const std::string& text) {
  if (mode_ == ProgressMode::Json) {
    print_json({{"event", "warning"}, {"message", text}});
  } else {
    line("normalcrafter-convert: warning: " + text, true);
  }
}

void Reporter::end(const Outcome& outcome) {
  const bool failed = outcome.status != Status::Done;
  if (mode_ == ProgressMode::Json) {
    nlohmann::ordered_json object = {{"event", failed ? "error" : "done"},
                                     {"status", static_cast<int>(outcome.status)}};
    if (!outcome.message.empty()) object["message"] = outcome.message;
    if (!outcome.output.empty()) object["output"] = outcome.output;
    object["frames"] = outcome.frames;
    if (outcome.beginning) object["beginning"] = static_cast<double>(*outcome.beginning) * 1e-9;
    object["seconds"] = outcome.seconds;
    print_json(object);
    return;
  }
  if (failed) line("normalcrafter-convert: " + outcome.message, true);
  if (mode_ == ProgressMode::Quiet && !failed) return;
  if (!outcome.output.empty()) {
    line(outcome.output + ": " + std::to_string(outcome.frames) +
             (outcome.frames == 1 ? " frame in " : " frames in ") + clock_text(outcome.seconds),
         true);
  }
}

}  // namespace normalcrafter::convert
