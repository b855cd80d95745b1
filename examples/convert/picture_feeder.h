// Files of pictures, one buffer each, as a stream.
#pragma once

#include <gst/app/gstappsrc.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "failure.h"
#include "frame_range.h"

namespace normalcrafter::convert {

/// A frame rate. numerator 0: none.
struct Rate {
  int numerator = 0;
  int denominator = 1;
  /// When frame `number` begins, in nanoseconds.
  std::int64_t time(std::int64_t number) const;
};

/// The pictures of a range and the number of the first of them within the whole list.
struct PictureRange {
  std::vector<std::filesystem::path> files;
  std::int64_t first = 0;
};
PictureRange cut(const std::vector<std::filesystem::path>& files, const RangeRequest& range,
                 const Rate& rate);

/// Answers an appsrc's wish for data. A file that cannot be read, is no picture, or is of another
/// type than the first ends the stream with an error message and failure().
class PictureFeeder {
 public:
  /// The appsrc has to be stopped before the feeder goes.
  PictureFeeder(GstAppSrc* source, PictureRange pictures, const Rate& rate);
  std::optional<Failure> failure() const { return failure_.get(); }
  bool is_empty() const { return pictures_.files.empty(); }

 private:
  static void on_need_data(GstAppSrc* source, guint size, gpointer self);
  void push_next(GstAppSrc* source);
  GstBuffer* read(const std::filesystem::path& file);
  void check_type(GstAppSrc* source, GstBuffer* buffer, const std::string& file);

  PictureRange pictures_;
  Rate rate_;
  std::size_t next_ = 0;
  std::string type_;  ///< of the first picture
  FirstFailure failure_;
};

}  // namespace normalcrafter::convert
