#include "model/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <vector>

#include "model_files.h"

namespace normalcrafter {
namespace {

using testing::expect_error;
using testing::safetensors;
using testing::TemporaryDirectory;

/// A file that must be refused: its bytes, by which fault, and what the message must name.
struct Malformed {
  const char* claim;
  std::string bytes;
  SafetensorsFault fault;
  std::string named;
};

void PrintTo(const Malformed& malformed, std::ostream* out) {
  *out << malformed.claim;
}

std::string entry(std::string_view shape, std::string_view offsets,
                  std::string_view dtype = "F32") {
  return R"({"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
         R"(,"data_offsets":)" + std::string(offsets) + "}";
}

std::string one(std::string_view shape, std::string_view offsets, std::string_view dtype = "F32") {
  return R"({"weight":)" + entry(shape, offsets, dtype) + "}";
}

std::string two(std::string_view first_offsets, std::string_view second_offsets) {
  return R"({"first":)" + entry("[1]", first_offsets) + R"(,"weight":)" +
         entry("[1]", second_offsets) + "}";
}

const std::string kFour(4, 'x');
const std::string kEight(8, 'x');
using Fault = SafetensorsFault;

const Malformed kMalformed[] = {
    {"EmptyFile", "", Fault::ShortFile, "is empty"},
    {"SevenBytes", std::string(7, '\0'), Fault::ShortFile, "7 bytes"},
    {"HeaderAboveTheLimit", safetensors("{}", "", 100'000'001), Fault::OversizedHeader,
     "100000001"},
    {"HeaderLengthOfAllOnes", safetensors("{}", "", ~std::uint64_t{0}), Fault::OversizedHeader,
     "18446744073709551615"},
    {"GitLfsPointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
     Fault::OversizedHeader, "git lfs pull"},
    {"FileEndsWithinTheHeader", safetensors("{}", "", 3), Fault::TruncatedHeader, "truncated"},
    {"LoneContinuationByte", safetensors("{\"\x80\":0}"), Fault::BadUtf8, "byte 2"},
    {"OverlongUtf8", safetensors("{\"\xc0\xaf\":0}"), Fault::BadUtf8, "UTF-8"},
    {"OverlongThreeByteUtf8", safetensors("{\"\xe0\x9f\xbf\":0}"), Fault::BadUtf8, "UTF-8"},
    {"Utf8Surrogate", safetensors("{\"\xed\xa0\x80\":0}"), Fault::BadUtf8, "UTF-8"},
    {"Utf8BeyondUnicode", safetensors("{\"\xf4\x90\x80\x80\":0}"), Fault::BadUtf8, "UTF-8"},
    {"Utf8CutShort", safetensors("{\"\xe2\x82"), Fault::BadUtf8, "UTF-8"},
    {"NoHeader", safetensors(""), Fault::NotAnObject, "begin with {"},
    {"HeaderIsAnArray", safetensors("[]"), Fault::NotAnObject, "begin with {"},
    {"HeaderIsANumber", safetensors("12"), Fault::NotAnObject, "begin with {"},
    {"HeaderBeginsWithASpace", safetensors(" {}"), Fault::NotAnObject, "begin with {"},
    {"HeaderIsCutJson", safetensors("{\"weight\":"), Fault::BadJson, "not JSON"},
    {"TextAfterTheHeader", safetensors("{} x"), Fault::BadJson, "not JSON"},
    {"NulAfterTheHeader", safetensors(std::string_view("{}\0x", 4)), Fault::BadJson, "NUL"},
    {"SecondObjectAfterTheHeader", safetensors("{}{}"), Fault::BadJson, "not JSON"},
    {"TwoTensorsOfOneName",
     safetensors(
         R"({"weight":)" + entry("[1]", "[0,4]") + R"(,"weight":)" + entry("[1]", "[4,8]") + "}",
         kEight),
     Fault::DuplicateName, "\"weight\""},
    {"NamesEqualAfterUnescaping",
     safetensors(R"({"weight":)" + entry("[1]", "[0,4]") + R"(,"w\u0065ight":)" +
                     entry("[1]", "[4,8]") + "}",
                 kEight),
     Fault::DuplicateName, "\"weight\""},
    {"TwoMetadata", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), Fault::DuplicateName,
     "__metadata__"},
    {"FieldTwiceInAnEntry",
     safetensors(R"({"weight":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
                 kFour),
     Fault::DuplicateField, "\"shape\""},
    {"KeyTwiceInMetadata", safetensors(R"({"__metadata__":{"format":"pt","format":"pt"}})"),
     Fault::DuplicateField, "\"format\""},
    {"MetadataIsAString", safetensors(R"({"__metadata__":"pt"})"), Fault::BadMetadata,
     "__metadata__"},
    {"MetadataIsAnArray", safetensors(R"({"__metadata__":[]})"), Fault::BadMetadata,
     "__metadata__"},
    {"MetadataHoldsANumber", safetensors(R"({"__metadata__":{"format":1}})"), Fault::BadMetadata,
     "__metadata__"},
    {"MetadataHoldsAnObject", safetensors(R"({"__metadata__":{"format":{}}})"), Fault::BadMetadata,
     "__metadata__"},
    {"MetadataHoldsAnArray", safetensors(R"({"__metadata__":{"format":[]}})"), Fault::BadMetadata,
     "__metadata__"},
    {"EntryIsANumber", safetensors(R"({"weight":1})"), Fault::BadEntry, "\"weight\""},
    {"EntryIsAnArray", safetensors(R"({"weight":[]})"), Fault::BadEntry, "\"weight\""},
    {"EntryWithoutDtype", safetensors(R"({"weight":{"shape":[1],"data_offsets":[0,4]}})", kFour),
     Fault::BadEntry, "no dtype"},
    {"EntryWithoutShape", safetensors(R"({"weight":{"dtype":"F32","data_offsets":[0,4]}})", kFour),
     Fault::BadEntry, "no shape"},
    {"EntryWithoutOffsets", safetensors(R"({"weight":{"dtype":"F32","shape":[1]}})", kFour),
     Fault::BadEntry, "no data_offsets"},
    {"DtypeIsANumber",
     safetensors(R"({"weight":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", kFour),
     Fault::BadEntry, "dtype is 32"},
    {"DtypeIsAnArray",
     safetensors(R"({"weight":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", kFour),
     Fault::BadEntry, "dtype is an array"},
    {"ShapeIsAnObject",
     safetensors(R"({"weight":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", kFour),
     Fault::BadEntry, "shape holds an object"},
    {"ShapeIsANumber", safetensors(one("4", "[0,16]")), Fault::BadEntry, "shape is 4"},
    {"ShapeIsNull", safetensors(one("null", "[0,16]")), Fault::BadEntry, "shape is null"},
    {"ShapeHoldsAnObject", safetensors(one("[{}]", "[0,4]"), kFour), Fault::BadEntry, "\"weight\""},
    {"ThreeOffsets", safetensors(one("[1]", "[0,4,4]"), kFour), Fault::BadEntry, "two numbers"},
    {"NoOffsets", safetensors(one("[1]", "[]"), kFour), Fault::BadEntry, "two numbers"},
    {"UnknownDtype", safetensors(one("[1]", "[0,4]", "F33"), kFour), Fault::UnknownDtype,
     "\"F33\""},
    {"DtypeOfLowerCase", safetensors(one("[1]", "[0,4]", "f32"), kFour), Fault::UnknownDtype,
     "\"weight\""},
    {"NegativeSide", safetensors(one("[-1]", "[0,4]"), kFour), Fault::BadNumber, "-1"},
    {"FractionalSide", safetensors(one("[1.0]", "[0,4]"), kFour), Fault::BadNumber, "1.0"},
    {"SideOfText", safetensors(one(R"(["1"])", "[0,4]"), kFour), Fault::BadNumber, "shape"},
    {"NestedShape", safetensors(one("[[1]]", "[0,4]"), kFour), Fault::BadNumber, "an array"},
    {"SideAbove64Bits", safetensors(one("[18446744073709551616]", "[0,4]"), kFour),
     Fault::BadNumber, "18446744073709551616"},
    {"NegativeOffset", safetensors(one("[1]", "[-4,0]"), kFour), Fault::BadNumber, "data_offsets"},
    {"FractionalOffset", safetensors(one("[1]", "[0,4.5]"), kFour), Fault::BadNumber, "4.5"},
    {"ShapeProductOverflows", safetensors(one("[4294967296,4294967296]", "[0,0]")),
     Fault::SizeOverflow, "\"weight\""},
    {"BytesOverflow", safetensors(one("[4611686018427387904]", "[0,0]")), Fault::SizeOverflow,
     "\"weight\""},
    {"SideAboveSigned64Bits", safetensors(one("[9223372036854775808,0]", "[0,0]")),
     Fault::SizeOverflow, "\"weight\""},
    {"EndsBeforeItBegins", safetensors(one("[1]", "[4,0]"), kFour), Fault::BadOffsets,
     "\"weight\""},
    {"OffsetsTooNarrow", safetensors(one("[2]", "[0,4]"), kFour), Fault::SizeMismatch,
     "need 8 bytes"},
    {"OffsetsTooWide", safetensors(one("[1]", "[0,8]"), kEight), Fault::SizeMismatch, "span 8"},
    {"ScalarOfNoBytes", safetensors(one("[]", "[0,0]")), Fault::SizeMismatch, "need 4 bytes"},
    {"DataEndsBeforeTheTensor", safetensors(one("[2]", "[0,8]"), kFour), Fault::BeyondEnd,
     "\"weight\""},
    {"TensorFarBeyondTheEnd",
     safetensors(one("[1]", "[18446744073709551611,18446744073709551615]"), kFour),
     Fault::BeyondEnd, "\"weight\""},
    {"TwoTensorsInOnePlace", safetensors(two("[0,4]", "[0,4]"), kFour), Fault::Overlap,
     "\"weight\""},
    {"TensorsSharingBytes", safetensors(two("[0,4]", "[2,6]"), kEight), Fault::Overlap,
     "\"weight\""},
    {"EmptyTensorWithinAnother",
     safetensors(
         R"({"first":)" + entry("[1]", "[0,4]") + R"(,"weight":)" + entry("[0]", "[2,2]") + "}",
         kFour),
     Fault::Overlap, "\"weight\""},
    {"HoleBetweenTensors", safetensors(two("[0,4]", "[8,12]"), kEight + kFour), Fault::Hole,
     "\"weight\""},
    {"HoleBeforeTheFirst", safetensors(one("[1]", "[4,8]"), kEight), Fault::Hole, "\"weight\""},
    {"BytesAfterTheLastTensor", safetensors(one("[1]", "[0,4]"), kEight), Fault::TrailingBytes,
     "4 bytes"},
    {"BytesWithoutTensors", safetensors("{}", "x"), Fault::TrailingBytes, "1 bytes"},
};

class MalformedFile : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedFile, IsRefusedByItsOwnFaultNamingFileAndPlace) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("weights.safetensors", GetParam().bytes);
  try {
    const SafetensorsFile file(path);
    FAIL() << "accepted";
  } catch (const SafetensorsError& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.fault()), static_cast<int>(GetParam().fault)) << message;
    EXPECT_EQ(message.rfind(path + ": ", 0), 0U) << message;
    EXPECT_NE(message.find(GetParam().named), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Safetensors, MalformedFile, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.claim); });

std::string read_all(const SafetensorsFile& file, const std::string& name) {
  const auto& tensor = file.tensors().at(name);
  std::string bytes(tensor.bytes, '\0');
  file.read(tensor, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TEST(Safetensors, ReadsEachTensorsOwnBytesWhateverTheHeadersOrder) {
  const TemporaryDirectory directory;
  const SafetensorsFile file(
      directory.write("w", safetensors(R"({"b":)" + entry("[2,2]", "[4,12]", "BF16") + R"(,"a":)" +
                                           entry("[1]", "[0,4]") + "}",
                                       "aaaabbbbBBBB")));
  EXPECT_EQ(read_all(file, "a"), "aaaa");
  EXPECT_EQ(read_all(file, "b"), "bbbbBBBB");
  EXPECT_EQ(file.tensors().at("b").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file.tensors().at("b").dtype, "BF16");
}

TEST(Safetensors, ReadsAPartOfATensor) {
  const TemporaryDirectory directory;
  const SafetensorsFile file(
      directory.write("w", safetensors(one("[8]", "[0,8]", "U8"), "01234567")));
  std::string part(3, '\0');
  file.read(file.tensors().at("weight"), 4, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "456");
}

TEST(Safetensors, AcceptsScalarsEmptyTensorsMetadataAndPadding) {
  const TemporaryDirectory directory;
  const std::string header = R"({"__metadata__":{"format":"pt"},"scalar":)" + entry("[]", "[0,4]") +
                             R"(,"none":)" + entry("[3,0,2]", "[4,4]") + R"(,"also none":)" +
                             entry("[0]", "[0,0]") + "}     ";
  const SafetensorsFile file(directory.write("w", safetensors(header, "1234")));
  EXPECT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(read_all(file, "scalar"), "1234");
  EXPECT_EQ(read_all(file, "none"), "");
  EXPECT_EQ(file.tensors().at("none").shape, (std::vector<std::int64_t>{3, 0, 2}));
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(SafetensorsFile(directory.write("w", safetensors("{}"))).tensors().empty());
}

TEST(Safetensors, IgnoresFieldsThatTheFormatDoesNotDefine) {
  const TemporaryDirectory directory;
  const std::string header =
      R"({"weight":{"note":{"deep":[1,{"dtype":2}],"deep":null},"dtype":"U8","list":[[1.5]],"shape":[1],"data_offsets":[0,1]}})";
  EXPECT_EQ(read_all(SafetensorsFile(directory.write("w", safetensors(header, "x"))), "weight"),
            "x");
}

TEST(Safetensors, NestingOfAMillionLevelsDoesNotOverflowTheStack) {
  const TemporaryDirectory directory;
  const std::size_t levels = 1'000'000;
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    std::string header = R"({"weight":{"note":)";
    for (std::size_t i = 0; i < levels; ++i) header += open;
    const std::string path = directory.write("w", safetensors(header));
    expect_error(
        ErrorCode::InvalidModel, [&] { SafetensorsFile file(path); }, path, "not JSON");
    header += "1";
    for (std::size_t i = 0; i < levels; ++i) header += close;
    header += R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    EXPECT_EQ(read_all(SafetensorsFile(directory.write("w", safetensors(header, "x"))), "weight"),
              "x");
  }
}

TEST(Safetensors, ControlCharactersInANameCannotCutTheMessageShort) {
  const TemporaryDirectory directory;
  const std::string header = R"({"a\u0000b\nc":)" + entry("[1]", "[0,4]", "F33") + "}";
  const std::string path = directory.write("w", safetensors(header, kFour));
  expect_error(
      ErrorCode::InvalidModel, [&] { SafetensorsFile file(path); }, R"("a\x00b\x0ac")", "F33");
}

TEST(Safetensors, AFileThatShrinksAfterOpeningIsAnError) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.write("w", safetensors(one("[65536]", "[0,65536]", "U8"), std::string(65536, 'x')));
  const SafetensorsFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  expect_error(
      ErrorCode::OpenRead, [&] { read_all(file, "weight"); }, path, "shrunk");
}

TEST(Safetensors, AFileWrittenToAfterOpeningIsAnError) {
  // As a training run does that saves over the model in use: offsets of the old header, new bytes.
  const TemporaryDirectory directory;
  const std::string bytes = safetensors(one("[4]", "[0,4]", "U8"), "good");
  const std::string path = directory.write("w", bytes);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const SafetensorsFile file(path);
  EXPECT_EQ(read_all(file, "weight"), "good");
  EXPECT_TRUE(file.is_current());
  directory.write("w", safetensors(one("[4]", "[0,4]", "U8"), "evil"));
  expect_error(
      ErrorCode::OpenRead, [&] { read_all(file, "weight"); }, path, "written to since");
  EXPECT_FALSE(file.is_current());
}

TEST(Safetensors, AFileReplacedAfterOpeningKeepsItsContent) {
  const TemporaryDirectory directory;
  const std::string bytes = safetensors(one("[4]", "[0,4]", "U8"), "good");
  const SafetensorsFile file(directory.write("w", bytes));
  EXPECT_TRUE(file.is_current());
  std::filesystem::rename(directory.write("other", "nonsense"), directory.path("w"));
  EXPECT_EQ(read_all(file, "weight"), "good");
  EXPECT_FALSE(file.is_current());
}

TEST(Safetensors, AMissingFileIsNotFound) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("nowhere.safetensors");
  expect_error(
      ErrorCode::NotFound, [&] { SafetensorsFile file(path); }, path, "no such file");
}

TEST(Safetensors, ADanglingSymbolicLinkIsNamedAsOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("link");
  std::filesystem::create_symlink("../blobs/gone", path);
  expect_error(
      ErrorCode::NotFound, [&] { SafetensorsFile file(path); }, path, "symbolic link");
}

TEST(Safetensors, ADirectoryInAFilesPlaceIsAnError) {
  const TemporaryDirectory directory;
  expect_error(
      ErrorCode::OpenRead, [&] { SafetensorsFile file(directory.path()); }, directory.path(),
      "is a directory");
}

TEST(Safetensors, AFifoIsAnErrorAndDoesNotBlock) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_error(
      ErrorCode::OpenRead, [&] { SafetensorsFile file(path); }, path, "not a regular file");
}

TEST(Safetensors, AFileWithoutReadPermissionIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryDirectory directory;
  const std::string path = directory.write("w", safetensors("{}"));
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  expect_error(
      ErrorCode::OpenRead, [&] { SafetensorsFile file(path); }, path, "denied");
}

}  // namespace
}  // namespace normalcrafter
