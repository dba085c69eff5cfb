// SPDX-License-Identifier: Apache-2.0
// Graphviz as a program: text in, picture out. No shell is between.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/dot.h"

extern char** environ;

namespace tenon {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorKind::io, "T0927", std::string("no pipe to Graphviz: ") + std::strerror(errno));
    read = ends[0], write = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  void close_read() {
    if (read >= 0) close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

}  // namespace

std::string draw_dot(const std::string& text, const std::string& form) {
  const char* given = std::getenv("TENON_DOT");
  const std::string program = given && *given ? given : "dot";
  Pipe in, out, said;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, said.write, 2);
  std::string name = program, format = "-T" + form;
  char* argv[] = {name.data(), format.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawnp(&child, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0)
    throw Error(ErrorKind::io, "T0925",
                fmt::format("Graphviz draws pictures, and its program `{}` cannot be started: {}", program,
                            std::strerror(failure)),
                {}, "apt install graphviz (or write the picture's text with --emit dot)");
  in.close_read(), out.close_write(), said.close_write();
  // Both ways at once: a program that answers before it has read all must not wait for us. A child that ends
  // early closes its end; the signal of writing then is held back from this thread.
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  fcntl(in.write, F_SETFL, O_NONBLOCK);
  std::string picture, words;
  size_t sent = 0;
  while (out.read >= 0 || said.read >= 0) {
    pollfd fds[3] = {{in.write, POLLOUT, 0}, {out.read, POLLIN, 0}, {said.read, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0 && errno != EINTR) break;
    if (in.write >= 0 && fds[0].revents) {
      const ssize_t n = write(in.write, text.data() + sent, text.size() - sent);
      if (n > 0) sent += size_t(n);
      if (sent == text.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) in.close_write();
    }
    auto receive = [](int& fd, short events, std::string& into) {
      if (fd < 0 || !events) return;
      char chunk[1 << 16];
      const ssize_t n = read(fd, chunk, sizeof chunk);
      if (n > 0) into.append(chunk, size_t(n));
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        close(fd);
        fd = -1;
      }
    };
    receive(out.read, fds[1].revents, picture);
    receive(said.read, fds[2].revents, words);
  }
  const timespec now{0, 0};
  while (sigtimedwait(&pipe_signal, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const std::string_view sign = form == "svg" ? "<svg" : "PNG\r\n";  // what a picture of the form holds
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || picture.find(sign) == picture.npos)
    throw Error(ErrorKind::io, WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "T0925" : "T0927",
                "Graphviz could not draw the picture: " + words.substr(0, 500), {},
                "apt install graphviz, or look at the text with --emit dot");
  return picture;
}

}  // namespace tenon
