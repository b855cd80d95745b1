// Exit statuses by the kind of an element's error, and how videos are encoded.
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "fault.h"
#include "video_codec.h"

namespace normalcrafter::convert {
namespace {

TEST(Faults, OfTheElementAreTheModelsOrMemoryOrSettings) {
  EXPECT_EQ(status_of(Role::Element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, false),
            Status::Model);
  EXPECT_EQ(status_of(Role::Element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ, false),
            Status::Model);
  EXPECT_EQ(status_of(Role::Element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, false),
            Status::Model);
  EXPECT_EQ(status_of(Role::Element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT, true),
            Status::OutOfMemory);
  EXPECT_EQ(status_of(Role::Element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, false),
            Status::Usage);
  EXPECT_EQ(status_of(Role::Element, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, true),
            Status::Failed);
}

TEST(Faults, OfTheOutputTellAFullDisk) {
  EXPECT_EQ(status_of(Role::Output, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT, true),
            Status::DiskFull);
  EXPECT_EQ(status_of(Role::Output, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_WRITE, false),
            Status::Output);
  EXPECT_EQ(status_of(Role::Output, GST_STREAM_ERROR, GST_STREAM_ERROR_ENCODE, true),
            Status::Failed);
}

TEST(Faults, OfTheInputAreDamageOnceFramesHaveCome) {
  EXPECT_EQ(status_of(Role::Input, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, false),
            Status::InputMissing);
  EXPECT_EQ(status_of(Role::Input, GST_STREAM_ERROR, GST_STREAM_ERROR_TYPE_NOT_FOUND, false),
            Status::NotVideo);
  EXPECT_EQ(status_of(Role::Input, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, true),
            Status::InputDamaged);
  EXPECT_EQ(status_of(Role::Input, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, true),
            Status::InputDamaged);
  EXPECT_EQ(status_of(Role::Input, GST_CORE_ERROR, GST_CORE_ERROR_MISSING_PLUGIN, true),
            Status::NotVideo);
}

TEST(Codecs, KeepTheFullResolutionOfColours) {
  for (const OutputKind kind :
       {OutputKind::Mp4, OutputKind::Mov, OutputKind::WebM, OutputKind::Matroska}) {
    const bool full = video_codec(kind, 50).encoder.find("format=Y444") != std::string::npos;
    EXPECT_TRUE(full) << static_cast<int>(kind);
  }
}

TEST(Codecs, OfMatroskaLoseNothingUnlessAQualityIsGiven) {
  EXPECT_NE(video_codec(OutputKind::Matroska, {}).encoder.find("ffv1"), std::string::npos);
  EXPECT_NE(video_codec(OutputKind::Matroska, 90).encoder.find("x264enc"), std::string::npos);
}

TEST(Codecs, QuantiseLessForMoreQuality) {
  EXPECT_NE(video_codec(OutputKind::Mp4, 0).encoder.find("quantizer=48"), std::string::npos);
  EXPECT_NE(video_codec(OutputKind::Mp4, 100).encoder.find("quantizer=1"), std::string::npos);
  EXPECT_NE(video_codec(OutputKind::WebM, 100).encoder.find("max-quantizer=1"), std::string::npos);
}

}  // namespace
}  // namespace normalcrafter::convert
