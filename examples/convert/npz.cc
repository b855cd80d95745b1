#include "npz.h"

#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "failure.h"
#include "output_kind.h"

namespace normalcrafter::convert {
namespace {

constexpr const char* kNormals = "normals.npy";

/// Both of zlib's functions take fewer bytes at once than a large picture has.
constexpr std::size_t kPiece = std::size_t{1} << 30;

template <typename Call>
void in_pieces(const void* data, std::size_t bytes, Call&& call) {
  const auto* at = static_cast<const Bytef*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t piece = std::min(left, kPiece);
    call(at, static_cast<uInt>(piece));
    at += piece;
    left -= piece;
  }
}

unsigned long crc_of(const std::string& bytes) {
  return crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
}

}  // namespace

NpzFile::NpzFile(const std::string& path) : partial_(partial_name(path).string()) {
  errno = 0;
  zip_ = zipOpen64(partial_.c_str(), APPEND_STATUS_CREATE);
  if (zip_ == nullptr) throw output_failure(partial_, errno);
}

NpzFile::~NpzFile() {
  if (zip_ != nullptr) zipClose(zip_, nullptr);
}

void NpzFile::check(int result) const {
  if (result != ZIP_OK) throw output_failure(partial_, errno);
}

/// "Raw": the bytes are stored as they come and the sum is given at the end, so that the header can
/// be replaced. zip64 always, since the length is not known.
void NpzFile::open_member(const char* name) {
  errno = 0;
  zip_fileinfo info{};
  // The earliest day that the format knows, so that equal arrays make equal files.
  info.dosDate = (1 << 21) | (1 << 16);
  check(zipOpenNewFileInZip2_64(zip_, name, &info, nullptr, 0, nullptr, 0, nullptr, 0, 0, 1, 1));
}

void NpzFile::append(const void* data, std::size_t bytes) {
  errno = 0;
  in_pieces(data, bytes, [this](const Bytef* piece, uInt count) {
    check(zipWriteInFileInZip(zip_, piece, count));
  });
}

void NpzFile::write(const NormalFrame& frame) {
  if (!shape_) {
    shape_.emplace(frame);
    open_member(kNormals);
    append(npy_header("f4", shape_->of(0)).data(), kNpyHeaderBytes);
  }
  append(frame.data, shape_->bytes());
  in_pieces(frame.data, shape_->bytes(),
            [this](const Bytef* piece, uInt count) { data_crc_ = crc32(data_crc_, piece, count); });
  times_.push_back(frame.time ? static_cast<double>(*frame.time) * 1e-9
                              : std::numeric_limits<double>::quiet_NaN());
}

void NpzFile::close_normals() {
  const auto frames = static_cast<std::int64_t>(times_.size());
  const std::uint64_t bytes = shape_->bytes() * times_.size();
  const unsigned long header = crc_of(npy_header("f4", shape_->of(frames)));
  const unsigned long sum = crc32_combine(header, data_crc_, static_cast<z_off_t>(bytes));
  check(zipCloseFileInZipRaw64(zip_, bytes + kNpyHeaderBytes, sum));
}

void NpzFile::write_times() {
  std::string array = npy_header("f8", {static_cast<std::int64_t>(times_.size())});
  array.append(reinterpret_cast<const char*>(times_.data()), times_.size() * sizeof(double));
  open_member("times.npy");
  append(array.data(), array.size());
  check(zipCloseFileInZipRaw64(zip_, array.size(), crc_of(array)));
}

/// The first member's data begin behind its local header: 30 bytes, of which the last four are the
/// lengths of name and extra field, and these two (PKWARE's APPNOTE, 4.3.7).
void NpzFile::write_normals_header(const std::string& header) const {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(partial_.c_str(), "r+be"),
                                                             std::fclose);
  unsigned char local[30];
  if (!file || std::fread(local, 1, sizeof local, file.get()) != sizeof local)
    throw output_failure(partial_, errno);
  const long data = 30 + local[26] + 256 * local[27] + local[28] + 256 * local[29];
  if (std::fseek(file.get(), data, SEEK_SET) != 0 ||
      std::fwrite(header.data(), 1, header.size(), file.get()) != header.size() ||
      std::fflush(file.get()) != 0)
    throw output_failure(partial_, errno);
}

void NpzFile::finish() {
  if (!times_.empty()) {
    close_normals();
    write_times();
  }
  errno = 0;
  check(zipClose(std::exchange(zip_, nullptr), nullptr));
  if (!times_.empty())
    write_normals_header(npy_header("f4", shape_->of(static_cast<std::int64_t>(times_.size()))));
}

}  // namespace normalcrafter::convert
