// How many threads a container's limits leave worth starting.
#include "stream/cpu_quota.h"

#include <gtest/gtest.h>

#include <thread>

#include "model_files.h"
#include "stream/physical_cores.h"

namespace normalcrafter {
namespace {

using testing::TemporaryDirectory;
using Groups = std::vector<std::string>;

TEST(CpuMax, IsQuotaOverPeriod) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("50000 200000"), 0.25);
}

TEST(CpuMax, OfAnotherFormIsNoLimit) {
  for (const char* text : {"max 100000\n", "", "100000", "words", "-1 100000", "100000 0", "nan 1"})
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << text;
}

TEST(CpuGroups, OfVersion2AreUnified) {
  const CpuGroups groups = parse_cgroups("0::/system.slice/docker-1.scope\n");
  EXPECT_EQ(groups.unified, "/system.slice/docker-1.scope");
  EXPECT_EQ(groups.cpu, std::nullopt);
}

TEST(CpuGroups, OfVersion1AreTheControllersOwn) {
  const CpuGroups groups =
      parse_cgroups("4:cpuset:/set\n3:cpuacct,cpu:/job:7\n2:cpuacct:/count\n1:name=cpu:/named\n");
  EXPECT_EQ(groups.cpu, "/job:7");
  EXPECT_EQ(groups.unified, std::nullopt);
}

TEST(CpuGroups, OfMalformedTextAreNone) {
  for (const char* text : {"", "0", "0:", "\n\n", "cpu"}) {
    EXPECT_EQ(parse_cgroups(text).unified, std::nullopt) << text;
    EXPECT_EQ(parse_cgroups(text).cpu, std::nullopt) << text;
  }
}

TEST(CpuGroups, LieInTheirAncestors) {
  EXPECT_EQ(with_ancestors("/a/b"), (Groups{"/a/b", "/a", "/"}));
  EXPECT_EQ(with_ancestors("/"), Groups{"/"});
  EXPECT_EQ(with_ancestors(""), Groups{"/"});
  EXPECT_EQ(with_ancestors("a/b"), Groups{"/"});
}

class CpuQuota : public ::testing::Test {
 protected:
  std::optional<double> quota() const { return cpu_quota(root_.path("own"), root_.path("fs")); }
  TemporaryDirectory root_;
};

TEST_F(CpuQuota, IsTheSmallestOfTheGroupsAboveIt) {
  root_.write("own", "0::/a/b/c\n");
  root_.write("fs/a/b/c/cpu.max", "max 100000\n");
  root_.write("fs/a/b/cpu.max", "400000 100000\n");
  root_.write("fs/a/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, IsTheContainersOwnWhereTheHostsNamesAreSeen) {
  root_.write("own", "0::/kubepods/pod1/container2\n");
  root_.write("fs/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, IsReadFromVersion1) {
  root_.write("own", "5:cpu,cpuacct:/docker/1\n0::/\n");
  root_.write("fs/cpu/docker/1/cpu.cfs_quota_us", "300000\n");
  root_.write("fs/cpu/docker/1/cpu.cfs_period_us", "100000\n");
  root_.write("fs/cpu/cpu.cfs_quota_us", "-1\n");
  root_.write("fs/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
}

TEST_F(CpuQuota, IsNoneWithoutGroups) {
  EXPECT_EQ(quota(), std::nullopt);
}

TEST(PhysicalCores, AreAtLeastOneAndNoMoreThanTheLogicalOnes) {
  EXPECT_GE(physical_cores(), 1);
  EXPECT_LE(physical_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(PhysicalCores, AreThoseThatTheQuotaKeepsBusy) {
  EXPECT_EQ(threads_for(8, std::nullopt), 8);
  EXPECT_EQ(threads_for(8, 2.0), 2);
  EXPECT_EQ(threads_for(8, 2.5), 3);
  EXPECT_EQ(threads_for(8, 0.1), 1);
  EXPECT_EQ(threads_for(2, 64.0), 2);
  EXPECT_EQ(threads_for(0, 4.0), 1);
}

}  // namespace
}  // namespace normalcrafter
