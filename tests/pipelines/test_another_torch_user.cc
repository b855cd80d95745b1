// A program that uses LibTorch for itself, in the process that the element's engine uses it in.
#include <sys/wait.h>

#include <fstream>
#include <iterator>

#include "pipeline.h"

namespace normalcrafter {
namespace {

/// Does what it is told to in that order: "torch" computes with PyTorch, whose defaults are other
/// ones than the engine counts on; another word is the file that the element's normals go to. 77:
/// something is not installed for this Python.
constexpr char kProgram[] = R"(
import os, sys
try:
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
except (ImportError, ValueError):
    sys.exit(77)
Gst.init(None)

def compute():
    sys.path.append(os.environ["TORCH_PACKAGES"])
    try:
        import torch
    except ImportError:
        sys.exit(77)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    weights = torch.rand(8, 8, 3, 3, requires_grad=True)
    result = torch.nn.functional.conv2d(torch.rand(1, 8, 40, 40), weights)
    result.sum().backward()
    sums = result.sum().item(), weights.grad.sum().item()
    return result.dtype, sums, torch.get_num_threads(), torch.is_grad_enabled()

def play(file):
    pipeline = Gst.parse_launch(
        "videotestsrc pattern=ball num-buffers=5 ! video/x-raw,format=RGB,width=64,height=48 ! "
        "normalcrafter device=cpu dtype=float32 threads=1 max-resolution=64 ! "
        f"video/x-raw,format=RGB ! filesink location={file}")
    pipeline.set_state(Gst.State.PLAYING)
    ends = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(60 * Gst.SECOND, ends)
    pipeline.set_state(Gst.State.NULL)
    assert message and message.type == Gst.MessageType.EOS, message and message.parse_error()

computed = []
for word in sys.argv[1:]:
    computed.append(compute()) if word == "torch" else play(word)
assert len(set(computed)) < 2, computed
print("all done")
)";

class AnotherTorchUser : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    g_unsetenv("NORMALCRAFTER_MODEL");
    if (!has_real_engine()) GTEST_SKIP() << "the fake engine is no user of LibTorch";
    std::ofstream(file("program.py")) << kProgram;
  }

  void run(const std::string& words) {
    Program program("/usr/bin/python3 " + file("program.py") + " " + words, file("log"));
    int status = -1;
    for (int tries = 0; tries < 4 && status == -1; ++tries) status = program.wait();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
      GTEST_SKIP() << "/usr/bin/python3 has no PyGObject, or cannot use the PyTorch of the build";
    ASSERT_EQ(status, 0) << program.output();
    EXPECT_TRUE(program.says("all done")) << program.output();
  }

  std::string content(const std::string& name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

TEST_F(AnotherTorchUser, AndTheElementGetTheirOwnResultsWhicheverIsFirst) {
  run(file("first") + " torch " + file("then") + " torch");
  if (IsSkipped()) return;
  const std::string alone = content("first");
  EXPECT_EQ(alone.size(), std::size_t{5} * 64 * 48 * 3);
  EXPECT_TRUE(content("then") == alone);
  run("torch " + file("second") + " torch");
  EXPECT_TRUE(content("second") == alone);
}

}  // namespace
}  // namespace normalcrafter
