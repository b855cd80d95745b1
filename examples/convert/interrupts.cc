#include "interrupts.h"

#include <fcntl.h>
#include <glib-unix.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace normalcrafter::convert {
namespace {

// What a signal handler may touch.
volatile std::sig_atomic_t first_signal = 0;
int wake_pipe[2] = {-1, -1};
char last_words[4096];

void on_signal(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
    [[maybe_unused]] const ssize_t ignored = write(wake_pipe[1], "", 1);
    return;
  }
  // Not through the main loop, which may be waiting for one of the network's blocks.
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, last_words, strlen(last_words));
  _exit(128 + signal);
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

gboolean on_wake(gint, GIOCondition, gpointer stop) {
  (*static_cast<std::function<void()>*>(stop))();
  return G_SOURCE_REMOVE;
}

}  // namespace

Interrupts::Interrupts(std::function<void()> stop, const std::string& farewell)
    : stop_(std::move(stop)) {
  first_signal = 0;
  g_strlcpy(last_words, farewell.c_str(), sizeof last_words);
  if (!g_unix_open_pipe(wake_pipe, FD_CLOEXEC, nullptr)) return;
  source_ = g_unix_fd_add(wake_pipe[0], G_IO_IN, on_wake, &stop_);
  handle(on_signal);
}

Interrupts::~Interrupts() {
  handle(SIG_DFL);
  if (GSource* source = g_main_context_find_source_by_id(nullptr, source_))
    g_source_destroy(source);
  for (const int end : wake_pipe) close(end);
}

int Interrupts::received() {
  return first_signal;
}

}  // namespace normalcrafter::convert
