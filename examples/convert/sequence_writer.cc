#include "sequence_writer.h"

#include "failure.h"

namespace normalcrafter::convert {
namespace {

OutputFile written_picture(const std::filesystem::path& path, const NormalFrame& frame,
                           const PictureFormat& format) {
  OutputFile file(path);
  try {
    if (format.exr) {
      write_exr(file, frame, format.exr_type, format.note);
    } else {
      write_png(file, frame, format.alpha, format.note);
    }
    return file;
  } catch (...) {
    file.discard();  // a piece of a picture is of no use
    throw;
  }
}

void commit(OutputFile& file) {
  try {
    file.commit();
  } catch (...) {
    file.discard();
    throw;
  }
}

}  // namespace

void SequenceWriter::write(const NormalFrame& frame) {
  OutputFile file = written_picture(pattern_.file(first_ + frame.number), frame, format_);
  commit(file);
}

void PictureWriter::write(const NormalFrame& frame) {
  if (frame.number > 0) {
    if (file_) file_->discard();
    file_.reset();
    throw Failure(Status::Usage, path_ +
                                     ": the input has more frames than this one picture takes; "
                                     "number them, as in normals-%05d.png, or give --frames=1");
  }
  file_ = written_picture(path_, frame, format_);
}

void PictureWriter::finish() {
  if (file_) commit(*file_);
  file_.reset();
}

std::int64_t count_written(const Pattern& pattern, std::int64_t first,
                           const PictureFormat& format) {
  const std::int64_t count = run_from(pattern.present(), first);
  if (count == 0) return 0;
  const std::string last = pattern.file(first + count - 1).string();
  const auto note = format.exr ? read_exr_note(last) : read_png_note(last);
  if (!note)
    throw Failure(Status::Output,
                  last + ": not written by this program, so --resume cannot go on after it");
  if (note->settings != format.note.settings) {
    throw Failure(Status::Output, last + ": was made with other settings (" + note->settings +
                                      "; now " + format.note.settings +
                                      "), so --resume cannot go on after it");
  }
  return count;
}

}  // namespace normalcrafter::convert
