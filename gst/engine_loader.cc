#include "engine_loader.h"

#include <dlfcn.h>
#include <glib.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string_view>

namespace normalcrafter {
namespace {

constexpr const char* kSoname = "libnormalcrafter-engine.so.0";
constexpr const char* kLibTorchVariable = "NORMALCRAFTER_LIBTORCH";

/// An OpenMP thread that has run out of work spins for a while by default. On the CPU that starves
/// the threads of the pipeline's other elements, which have work. Only a user's own choice is left
/// alone. OpenMP reads it once, when LibTorch is first loaded.
void make_idle_threads_sleep() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    if (g_getenv(name) != nullptr) return;
  }
  g_setenv("OMP_WAIT_POLICY", "passive", FALSE);
}

std::string library_path() {
  if (const char* chosen = g_getenv("NORMALCRAFTER_ENGINE"); chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  const std::filesystem::path here = plugin_directory();
  const std::filesystem::path candidates[] = {
      here / ".." / "engine" / "libnormalcrafter-engine.so",  // build tree
      here / ".." / kSoname,                                  // LIBDIR/gstreamer-1.0
  };
  for (const auto& candidate : candidates) {
    std::error_code ignored;
    if (std::filesystem::exists(candidate, ignored)) return candidate.string();
  }
  return kSoname;
}

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::DeviceUnavailable, text);
}

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  fail(
      "The engine library " + path + " cannot be used: " + reason +
      ". Install it with its LibTorch, or set the environment variable NORMALCRAFTER_ENGINE to its "
      "path.");
}

/// What to do where LibTorch is missing or another one.
std::string how_to_find_libtorch() {
  return "Set the environment variable " + std::string(kLibTorchVariable) +
         " to the directory of LibTorch " NORMALCRAFTER_LIBTORCH_VERSION
         ", the one that has lib/libtorch_cpu.so.";
}

/// LibTorch's interface changes from one minor release to the next: another one than the engine was
/// compiled with would crash sooner or later. `library` is LibTorch or what is linked to it.
void check_libtorch_version(void* library, const std::string& path) {
  // The C function that LibTorch gives to libraries built ahead of time: one byte each of major,
  // minor and patch number from the top.
  auto* version = reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "aoti_torch_abi_version"));
  constexpr std::string_view kBuilt = NORMALCRAFTER_LIBTORCH_VERSION;
  if (version == nullptr || kBuilt.empty()) return;
  const std::uint64_t number = version();
  const std::string found = std::to_string(number >> 56) + "." + std::to_string(number >> 48 & 255);
  if (found == kBuilt) return;
  fail("The engine is built for LibTorch " NORMALCRAFTER_LIBTORCH_VERSION ", but " + path +
       " comes with LibTorch " + found + ". " + how_to_find_libtorch());
}

/// Loads the LibTorch of a directory, so that the engine, which names its libraries without their
/// place, takes them and not those of its run path.
void load_libtorch(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::exists(directory / "lib" / "libtorch_cpu.so", ignored)) {
    fail("The environment variable " + std::string(kLibTorchVariable) + " names " +
         directory.string() + ", where there is no lib/libtorch_cpu.so. " + how_to_find_libtorch());
  }
  // LibTorch's own OpenMP library first: the engine has to use the same one. CUDA's part is not in
  // every build.
  for (const char* name : {"libgomp.so.1", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    const std::filesystem::path path = directory / "lib" / name;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail("LibTorch's " + path.string() + " cannot be used: " + dlerror());
    check_libtorch_version(library, directory.string());
  }
}

void* open_engine(const std::string& path) {
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    check_libtorch_version(library, path);
    return library;
  }
  const std::string reason = dlerror();
  // The linker's text begins with the file that it cannot use.
  const bool missing = reason.starts_with(path) && reason.find("undefined symbol") == reason.npos;
  if (missing) fail(path, reason);
  fail("The engine library " + path + " cannot be used: " + reason + ". " + how_to_find_libtorch());
}

}  // namespace

std::string plugin_directory() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&load_engine), &self) == 0 || !self.dli_fname)
    return ".";
  // Without links: a system's /lib may be one to /usr/lib, and what is beside the plugin is not
  // beside a link to it.
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(self.dli_fname, error);
  return (error ? std::filesystem::path(self.dli_fname) : file).parent_path().string();
}

std::string beside_plugin(const std::string& configured) {
  const std::filesystem::path way =
      std::filesystem::path(configured).lexically_relative(NORMALCRAFTER_PLUGIN_DIR);
  return (std::filesystem::path(plugin_directory()) / way).lexically_normal().string();
}

Engine& load_engine() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  make_idle_threads_sleep();
  if (const char* chosen = g_getenv(kLibTorchVariable); chosen != nullptr && *chosen != '\0')
    load_libtorch(chosen);
  const std::string path = library_path();
  void* library = open_engine(path);
  auto* entry =
      reinterpret_cast<decltype(&normalcrafter_engine)>(dlsym(library, "normalcrafter_engine"));
  if (entry == nullptr) fail(path, "it is no normalcrafter engine");
  Engine* engine = entry(kEngineAbi);
  if (engine == nullptr) {
    fail(path,
         "it has another interface version than this plugin (" + std::to_string(kEngineAbi) + ")");
  }
  return *engine;
}

}  // namespace normalcrafter
