#include "engine_loader.h"

#include <dlfcn.h>
#include <glib.h>

#include <filesystem>
#include <mutex>

namespace normalcrafter {
namespace {

constexpr const char* kSoname = "libnormalcrafter-engine.so.0";

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

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::DeviceUnavailable,
              "The engine library " + path + " cannot be used: " + reason +
                  ". Install it with its LibTorch, or set the environment variable "
                  "NORMALCRAFTER_ENGINE to its path.");
}

}  // namespace

std::string plugin_directory() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&load_engine), &self) == 0 || !self.dli_fname)
    return ".";
  std::error_code ignored;
  return std::filesystem::absolute(self.dli_fname, ignored).parent_path().string();
}

Engine& load_engine() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  make_idle_threads_sleep();
  const std::string path = library_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(path, dlerror());
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
