#include "npy.h"

#include <bit>

namespace normalcrafter::convert {

std::string npy_header(const std::string& type, const std::vector<std::int64_t>& shape) {
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string text = "{'descr': '";
  text += order + type + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t side : shape) text += std::to_string(side) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  text += "), }";
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kText = kNpyHeaderBytes - kPrefix;
  static_assert(kText < 256, "the length below is one byte");
  text.resize(kText - 1, ' ');
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(kText);
  header += '\0';
  return header + text + '\n';
}

void NpyFile::write(const NormalFrame& frame) {
  const FrameShape shape(frame);
  if (frames_ == 0) file_.write(npy_header("f4", shape.of(0)).data(), kNpyHeaderBytes);
  file_.write(frame.data, shape.bytes());
  file_.flush();
  file_.write_at(0, npy_header("f4", shape.of(++frames_)).data(), kNpyHeaderBytes);
}

}  // namespace normalcrafter::convert
