// The engine's entry point, reached by linking or by dlopen().
#pragma once

#include <memory>

#include "normalcrafter/error.h"
#include "normalcrafter/model.h"
#include "normalcrafter/options.h"
#include "normalcrafter/session.h"

namespace normalcrafter {

/// Changes whenever these headers change incompatibly.
inline constexpr unsigned kEngineAbi = 3;

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* version() const = 0;
  /// Checks directory, configurations, tensor headers and device, without reading weights. The same
  /// options asked for twice give the same model while it lives. Throws Error.
  virtual std::shared_ptr<Model> open_model(const ModelOptions& options,
                                            const LogFunction& log) = 0;
  /// Throws Error Settings when the options cannot work together or with the model.
  virtual std::unique_ptr<Session> create_session(std::shared_ptr<Model> model,
                                                  const SessionOptions& options,
                                                  SessionCallbacks callbacks) = 0;
};

}  // namespace normalcrafter

/// The process's engine, or nullptr if it does not speak `abi`. Never freed.
extern "C" __attribute__((visibility("default"))) normalcrafter::Engine* normalcrafter_engine(
    unsigned abi);
