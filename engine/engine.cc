#include "normalcrafter/engine.h"

#include <ATen/ATen.h>

#include <new>
#include <string>

#include "model/loaded_model.h"
#include "stream/faults.h"
#include "stream/stream_session.h"

namespace normalcrafter {
namespace {

class TorchEngine final : public Engine {
 public:
  const char* version() const override { return NORMALCRAFTER_VERSION; }

  std::shared_ptr<Model> open_model(const ModelOptions& options, const LogFunction& log) override {
    try {
      return open_shared_model(options, log);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::OutOfMemory,
                  "out of memory while opening the model in " + options.directory);
    } catch (const std::exception& error) {
      const std::string why = message_of(error);
      // A device that is full, busy or broken is not the model's fault.
      if (fault_of(why) != Fault::Other) rethrow_as_error(Stage::Load);
      throw Error(ErrorCode::InvalidModel,
                  "cannot open the model in " + options.directory + ": " + why);
    }
  }

  std::unique_ptr<Session> create_session(std::shared_ptr<Model> model,
                                          const SessionOptions& options,
                                          SessionCallbacks callbacks) override {
    auto stages = std::dynamic_pointer_cast<Stages>(model);
    if (!stages) throw Error(ErrorCode::Settings, "the model was not opened by this engine");
    return make_stream_session(std::move(stages), options, std::move(callbacks));
  }
};

}  // namespace
}  // namespace normalcrafter

normalcrafter::Engine* normalcrafter_engine(unsigned abi) {
  static normalcrafter::TorchEngine engine;
  return abi == normalcrafter::kEngineAbi ? &engine : nullptr;
}
