// c7x-vdsp: a process that answers the wire protocol as a board's compute service does (docs/virtual-dsp.md).
//
// The server owns the socket and the memory and answers what it can. Loading, unloading and running modules happens in
// a child, forked from it: when a module crashes, the server answers in its place and forks the next child, which finds
// all state in shared memory.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "c7x_protocol.h"
#include "firmware.h"

using vdsp::firmware;

namespace {

constexpr int kMaxClients = 16;
constexpr int kMaxFaults = 16;
constexpr size_t kReceiveBytes = 4096;
constexpr int kSendTimeoutMs = 2000;

// Faults to inject, by the number of the request since the start, counted from 1.
struct Fault {
  enum Kind { kDrop, kDelay, kSeq, kShort, kDie } kind;
  uint64_t at;
  uint64_t milliseconds;
};

struct Settings {
  const char* socket = nullptr;
  const char* shm = nullptr;
  vdsp::Sharing sharing = vdsp::Sharing::kSealed;
  uint64_t base = C7X_CARVEOUT_ADDR;
  vdsp::Options firmware;
  Fault faults[kMaxFaults] = {};
  int num_faults = 0;
  int call_timeout_ms = -1;
};

const char usage[] =
    "usage: c7x-vdsp --socket PATH --shm PATH [options]\n"
    "\n"
    "Answers the wire protocol of the c7x compute service on a SOCK_SEQPACKET socket.\n"
    "The first line on standard output says when it is ready.\n"
    "\n"
    "  --board NAME           beagley-ai or j722s-evm (default): which symbols a module may import\n"
    "  --base ADDRESS         DSP address of the shared buffer (default 0xC0000000)\n"
    "  --shm-file             make PATH of --shm a file: for clients in another container. By default it is a link to\n"
    "                         memory that no other process can shorten\n"
    "  --no-strict            allow what a board leaves undefined\n"
    "  --call-timeout MS      end a module that runs longer; a board would hang\n"
    "  --fault KIND=N[:MS]    inject a fault at the N-th request: drop (no answer), delay (answer MS later), seq (wrong\n"
    "                         number), short (half an answer), die (the virtual DSP ends); oom=N: the N-th\n"
    "                         allocation from the main pool fails. May be repeated\n";

volatile std::sig_atomic_t stop_requested = 0;

void on_stop(int) { stop_requested = 1; }

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "c7x-vdsp: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

[[noreturn]] void die_usage(const char* what, const char* argument) {
  std::fprintf(stderr, "c7x-vdsp: %s: %s\n%s", what, argument, usage);
  std::exit(2);
}

uint64_t parse_number(const char* text) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text, &end, 0);
  if (errno != 0 || end == text || *end != '\0' || text[0] == '-') {
    die_usage("not a number", text);
  }
  return value;
}

void parse_fault(const char* text, Settings* settings) {
  static const struct {
    const char* name;
    Fault::Kind kind;
  } kinds[] = {{"drop=", Fault::kDrop},
               {"delay=", Fault::kDelay},
               {"seq=", Fault::kSeq},
               {"short=", Fault::kShort},
               {"die=", Fault::kDie}};
  char number[64];
  const char* const equals = std::strchr(text, '=');
  if (equals == nullptr || std::strlen(equals + 1) >= sizeof number) {
    die_usage("not KIND=N", text);
  }
  std::strcpy(number, equals + 1);
  uint64_t milliseconds = 0;
  if (char* const colon = std::strchr(number, ':')) {
    *colon = '\0';
    milliseconds = parse_number(colon + 1);
  }
  const uint64_t at = parse_number(number);
  if (std::strncmp(text, "oom=", 4) == 0) {
    settings->firmware.oom_at = at;
    return;
  }
  for (const auto& kind : kinds) {
    if (std::strncmp(text, kind.name, std::strlen(kind.name)) == 0 && settings->num_faults < kMaxFaults) {
      settings->faults[settings->num_faults++] = {kind.kind, at, milliseconds};
      return;
    }
  }
  die_usage("unknown fault, or too many", text);
}

Settings parse_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const char* const name = argv[i];
    if (std::strcmp(name, "--help") == 0) {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    if (std::strcmp(name, "--no-strict") == 0) {
      settings.firmware.strict = false;
      continue;
    }
    if (std::strcmp(name, "--shm-file") == 0) {
      settings.sharing = vdsp::Sharing::kPlain;
      continue;
    }
    if (i + 1 == argc) {
      die_usage("unknown option, or a value is missing", name);
    }
    const char* const value = argv[++i];
    if (std::strcmp(name, "--socket") == 0) {
      settings.socket = value;
    } else if (std::strcmp(name, "--shm") == 0) {
      settings.shm = value;
    } else if (std::strcmp(name, "--base") == 0) {
      settings.base = parse_number(value);
    } else if (std::strcmp(name, "--call-timeout") == 0) {
      settings.call_timeout_ms = static_cast<int>(parse_number(value));
    } else if (std::strcmp(name, "--fault") == 0) {
      parse_fault(value, &settings);
    } else if (std::strcmp(name, "--board") == 0) {
      settings.firmware.board = value;
      settings.firmware.has_tidl = std::strcmp(value, "j722s-evm") == 0;
      if (!settings.firmware.has_tidl && std::strcmp(value, "beagley-ai") != 0) {
        die_usage("unknown board", value);
      }
    } else {
      die_usage("unknown option", name);
    }
  }
  if (settings.socket == nullptr || settings.shm == nullptr) {
    die_usage("missing", settings.socket == nullptr ? "--socket" : "--shm");
  }
  if (settings.base % 4096 != 0 || settings.base > UINT64_MAX / 2) {
    die_usage("not an address of a page", "--base");
  }
  return settings;
}

int listen_at(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) {
    die_usage("the path of a socket has at most 107 characters", path);
  }
  std::strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    die("cannot make a socket");
  }
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd, where, sizeof address) == 0) {
    std::fprintf(stderr, "c7x-vdsp: a virtual DSP is already running at %s\n", path);
    std::exit(1);
  }
  unlink(path);
  const mode_t mask = umask(0177);
  if (bind(fd, where, sizeof address) != 0 || listen(fd, kMaxClients) != 0) {
    die(path);
  }
  umask(mask);
  return fd;
}

// ---- the child ----

class Runner {
 public:
  Runner(int timeout_ms, const sigset_t& while_waiting) : timeout_ms_(timeout_ms), while_waiting_(while_waiting) {}

  // Hands the request to the child and returns the length of its answer; when the child dies, the server's own.
  size_t run(const uint8_t* request, size_t length, uint8_t* response) {
    if (pid_ < 0) {
      start();
    }
    ssize_t received = -1;
    bool late = false;
    if (send(fd_, request, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length)) {
      pollfd waiting = {fd_, POLLIN, 0};
      const timespec limit = {timeout_ms_ / 1000, timeout_ms_ % 1000 * 1000000L};
      int ready = 0;
      do {
        ready = ppoll(&waiting, 1, timeout_ms_ < 0 ? nullptr : &limit, &while_waiting_);
      } while (ready < 0 && errno == EINTR && stop_requested == 0);
      late = ready == 0;
      received = ready > 0 ? recv(fd_, response, vdsp::kMaxResponse, 0) : -1;
    }
    if (received > 0) {
      return static_cast<size_t>(received);
    }
    const char* const why = end(late);
    // Without its memory there is nowhere to say why; the server ends.
    return firmware.memory().intact() ? firmware.answer_for_crash(request, length, why, response) : 0;
  }

  void kill_child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      close(fd_);
      pid_ = -1;
    }
  }

 private:
  void start() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
      die("cannot make a socket pair");
    }
    std::fflush(nullptr);
    const pid_t server = getpid();
    pid_ = fork();
    if (pid_ < 0) {
      die("cannot fork");
    }
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != server) {
        _exit(1);
      }
      serve(pair[1]);
    }
    close(pair[1]);
    fd_ = pair[0];
  }

  [[noreturn]] void serve(int fd) {
    // Clients must see the end of the server, so the child may not hold their connections.
    for (int other = 3; other < 1024; ++other) {
      if (other != fd && other != firmware.memory().carveout_fd()) {
        close(other);
      }
    }
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &while_waiting_, nullptr);
    if (!firmware.enter_child()) {
      die("cannot prepare the process that runs modules");
    }
    static uint8_t request[kReceiveBytes];
    static uint8_t response[vdsp::kMaxResponse];
    for (;;) {
      const ssize_t length = recv(fd, request, sizeof request, 0);
      if (length <= 0) {
        _exit(0);
      }
      std::memset(response, 0, sizeof response);
      const size_t size = firmware.handle(request, static_cast<size_t>(length), response);
      if (send(fd, response, size, MSG_NOSIGNAL) < 0) {
        _exit(0);
      }
    }
  }

  // Ends the child and says why it ended; empty when it has said so itself.
  const char* end(bool late) {
    int status = 0;
    if (late || stop_requested != 0) {
      kill(pid_, SIGKILL);
    }
    waitpid(pid_, &status, 0);
    close(fd_);
    pid_ = -1;
    static char text[160];
    if (late) {
      std::snprintf(text, sizeof text, "the module did not return within %d ms", timeout_ms_);
    } else if (WIFSIGNALED(status)) {
      std::snprintf(text, sizeof text, "the module was ended by signal %d (%s)", WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == vdsp::kExitViolation) {
      return "";
    } else {
      std::snprintf(text, sizeof text, "the module ended its process with code %d", WEXITSTATUS(status));
    }
    std::fprintf(stderr, "[vdsp] %s\n", text);
    return text;
  }

  const int timeout_ms_;
  const sigset_t while_waiting_;
  pid_t pid_ = -1;
  int fd_ = -1;
};

// ---- the server ----

class Server {
 public:
  // `while_waiting`: the signal mask of its waits; outside them SIGTERM and SIGINT are blocked.
  Server(const Settings& settings, int listener, const sigset_t& while_waiting)
      : settings_(settings), while_waiting_(while_waiting), runner_(settings.call_timeout_ms, while_waiting) {
    polled_[0] = {listener, POLLIN, 0};
  }

  // False when the shared file was shortened, after which nothing in it can be touched.
  bool run() {
    while (stop_requested == 0 && !is_cut_) {
      if (ppoll(polled_, static_cast<nfds_t>(num_polled_), nullptr, &while_waiting_) < 0) {
        if (errno == EINTR) {
          continue;
        }
        die("cannot wait for clients");
      }
      for (int i = num_polled_ - 1; i > 0 && stop_requested == 0 && !is_cut_; --i) {
        if (polled_[i].revents != 0 && !serve(polled_[i].fd)) {
          close(polled_[i].fd);
          polled_[i] = polled_[--num_polled_];
        }
      }
      if ((polled_[0].revents & POLLIN) != 0) {
        accept_client();
      }
    }
    runner_.kill_child();
    return !is_cut_;
  }

 private:
  void accept_client() {
    const int fd = accept4(polled_[0].fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0 && num_polled_ <= kMaxClients) {
      polled_[num_polled_++] = {fd, POLLIN, 0};
    } else if (fd >= 0) {
      close(fd);
    }
  }

  // Reads one message and answers it; false when the client has gone or does not read its answers.
  bool serve(int fd) {
    static uint8_t request[kReceiveBytes];
    static uint8_t response[vdsp::kMaxResponse];
    const ssize_t received = recv(fd, request, sizeof request, MSG_DONTWAIT);
    if (received <= 0) {
      return received < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (received < C7X_MIN_MESSAGE) {
      return true;
    }
    const auto length = static_cast<size_t>(received);
    ++num_requests_;
    if (find_fault(Fault::kDie) != nullptr) {
      runner_.kill_child();
      std::fprintf(stderr, "[vdsp] fault: the virtual DSP dies at request %" PRIu64 "\n", num_requests_);
      _exit(1);
    }
    size_t size = firmware.handle_light(request, length, response);
    if (size == 0 && firmware.memory().intact()) {
      size = runner_.run(request, length, response);
    }
    is_cut_ = size == 0;
    return !is_cut_ && send_answer(fd, response, size);
  }

  bool send_answer(int fd, uint8_t* response, size_t size) {
    if (find_fault(Fault::kDrop) != nullptr) {
      return true;
    }
    if (const Fault* const delay = find_fault(Fault::kDelay)) {
      const timespec time = {static_cast<time_t>(delay->milliseconds / 1000),
                             static_cast<long>(delay->milliseconds % 1000 * 1000000)};
      nanosleep(&time, nullptr);
    }
    if (find_fault(Fault::kSeq) != nullptr) {
      response[offsetof(c7x_msg_header, seq)] ^= 0x80;
    }
    if (find_fault(Fault::kShort) != nullptr) {
      size /= 2;
    }
    pollfd waiting = {fd, POLLOUT, 0};
    if (poll(&waiting, 1, kSendTimeoutMs) <= 0) {
      return false;
    }
    return send(fd, response, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
  }

  const Fault* find_fault(Fault::Kind kind) const {
    for (int i = 0; i < settings_.num_faults; ++i) {
      if (settings_.faults[i].kind == kind && settings_.faults[i].at == num_requests_) {
        return &settings_.faults[i];
      }
    }
    return nullptr;
  }

  const Settings& settings_;
  const sigset_t while_waiting_;
  Runner runner_;
  pollfd polled_[kMaxClients + 1] = {};
  int num_polled_ = 1;
  uint64_t num_requests_ = 0;
  bool is_cut_ = false;
};

void print_json_string(const char* text) {
  std::putchar('"');
  for (const char* p = text; *p != '\0'; ++p) {
    const auto c = static_cast<unsigned char>(*p);
    if (c == '"' || c == '\\') {
      std::printf("\\%c", c);
    } else if (c < 0x20) {
      std::printf("\\u%04x", c);
    } else {
      std::putchar(c);
    }
  }
  std::putchar('"');
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse_arguments(argc, argv);
  struct sigaction action = {};
  action.sa_handler = on_stop;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Held back except while waiting, so that none comes between the check and the wait.
  sigset_t stops, before;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  const int listener = listen_at(settings.socket);
  if (!firmware.start(settings.shm, settings.sharing, settings.base, settings.firmware)) {
    die(settings.shm);
  }
  std::printf("{\"status\": \"ready\", \"socket\": ");
  print_json_string(settings.socket);
  std::printf(", \"shm\": ");
  print_json_string(settings.shm);
  std::printf(", \"base\": \"0x%" PRIX64 "\", \"size\": %" PRIu64 ", \"board\": \"%s\", \"strict\": %s, \"pid\": %d}\n",
              settings.base, static_cast<uint64_t>(C7X_CARVEOUT_SIZE), settings.firmware.board,
              settings.firmware.strict ? "true" : "false", static_cast<int>(getpid()));
  std::fflush(stdout);
  sigprocmask(SIG_BLOCK, &stops, &before);
  Server server(settings, listener, before);
  const bool whole = server.run();
  if (!whole) {
    std::fprintf(stderr, "[vdsp] %s was shortened by another process; the virtual DSP ends\n", settings.shm);
  }
  unlink(settings.socket);
  unlink(settings.shm);
  return whole ? 0 : 1;
}
