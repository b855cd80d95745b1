// What a file name asks for.
#pragma once

#include <filesystem>
#include <string>

namespace normalcrafter::convert {

enum class OutputKind { Mp4, Mov, Matroska, WebM, Png, Exr, Npy, Npz };

/// By the name's ending, upper or lower case. A Failure (Usage) that lists the known ones.
OutputKind output_kind(const std::string& path);

bool is_video(OutputKind kind);
/// One file a frame.
bool is_sequence(OutputKind kind);
/// Written from the element's float output.
bool is_float(OutputKind kind);

/// Where a file is written until it is whole, in the same folder: "a/out.mp4" is
/// "a/out.partial.mp4".
std::filesystem::path partial_name(const std::filesystem::path& path);

}  // namespace normalcrafter::convert
