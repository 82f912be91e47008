// The rpmsg transport against a sysfs tree made here and a kernel that only knows what the transport asks of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "internal.h"

namespace {

// What the kernel was asked, and how it behaves.
struct Kernel {
  std::string root;
  std::map<std::string, int> opened;  // how often, by the path below the root
  std::vector<uint64_t> syncs;
  std::map<int, std::string> names;  // of descriptors
  int endpoints_made = 0, endpoints_destroyed = 0;
  int64_t clock = 0;
  int peer = -1;  // the DSP's side of the endpoint

  uint64_t phys = C7X_CARVEOUT_PHYS_BEAGLEY_AI;
  int create_errno = 0, heap_errno = 0, attach_errno = 0, sync_errno = 0;
  int64_t node_after_ms = 20;  // how long udev takes
  bool node_comes = true;
  bool foreign_node = false;  // another process makes an endpoint at the same moment
  bool hidden_name = false;   // the new node has another name
  int64_t created_at = -1;
  bool node_there = false;
};
Kernel* kernel = nullptr;

void MakeFolders(const std::string& path) {
  for (size_t at = 1; at != std::string::npos; at = path.find('/', at + 1)) mkdir(path.substr(0, at).c_str(), 0755);
  mkdir(path.c_str(), 0755);
}

void WriteFile(const std::string& path, const std::string& text) {
  MakeFolders(path.substr(0, path.rfind('/')));
  std::ofstream(path) << text;
}

void Link(const std::string& target, const std::string& link) {
  MakeFolders(link.substr(0, link.rfind('/')));
  CHECK_EQ(symlink(target.c_str(), link.c_str()), 0);
}

// An endpoint as sysfs shows it: a link to its device below the DSP's.
void AddEndpoint(const std::string& root, const std::string& device, int number, const std::string& name,
                 const std::string& dst) {
  const std::string node = "rpmsg" + std::to_string(number);
  const std::string folder = root + "/sys/devices/platform/" + device + "/virtio0/rpmsg_ctrl/" + node;
  WriteFile(folder + "/name", name + "\n");
  WriteFile(folder + "/src", "-1\n");
  WriteFile(folder + "/dst", dst + "\n");
  Link(folder, root + "/sys/class/rpmsg/" + node);
}

std::string MakeTree() {
  const char* parent = std::getenv("TMPDIR");
  std::string root = std::string(parent != nullptr ? parent : "/tmp") + "/c7x-rpmsg-XXXXXX";
  CHECK(mkdtemp(&root[0]) != nullptr);
  const char* const devices[] = {"79000000.r5f", "7e000000.dsp", "7e200000.dsp"};
  for (int i = 0; i < 3; ++i) {
    const std::string device = root + "/sys/devices/platform/" + devices[i];
    MakeFolders(device + "/virtio0");
    Link(device + "/virtio0", root + "/sys/class/rpmsg/rpmsg_ctrl" + std::to_string(11 * i) + "/device");
    Link(device, root + "/sys/class/remoteproc/remoteproc" + std::to_string(3 + i) + "/device");
    WriteFile(root + "/sys/class/remoteproc/remoteproc" + std::to_string(3 + i) + "/state", "running\n");
  }
  // Left behind by a client that crashed, and one of another core with the same name.
  AddEndpoint(root, "7e000000.dsp", 4, C7X_CLIENT_NAME, "20");
  AddEndpoint(root, "79000000.r5f", 9, C7X_CLIENT_NAME, "20");
  MakeFolders(root + "/run/lock");
  return root;
}

int Remember(int fd, const std::string& name) {
  kernel->names[fd] = name;
  return fd;
}

int FakeOpen(const char* path, int flags) {
  CHECK(std::strncmp(path, kernel->root.c_str(), kernel->root.size()) == 0);
  CHECK((flags & O_CLOEXEC) != 0);
  const std::string name = path + kernel->root.size();
  ++kernel->opened[name];
  if (name == "/dev/rpmsg21") {  // the foreign one: an endpoint opens once
    errno = EBUSY;
    return -1;
  }
  if (name == "/dev/rpmsg22") {
    CHECK((flags & O_NONBLOCK) != 0);
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_EQ(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    kernel->peer = pair[1];
    return Remember(pair[0], name);
  }
  CHECK(name == "/dev/rpmsg_ctrl11" || name == "/dev/remoteproc4" ||
        name == "/dev/dma_heap/carveout_vision_apps_shared-memories");
  return Remember(open("/dev/null", O_RDWR | O_CLOEXEC), name);
}

int Answer(int number) {
  errno = number;
  return number == 0 ? 0 : -1;
}

int FakeIoctl(int fd, unsigned long request, void* argument) {
  const std::string name = kernel->names[fd];
  uint8_t* bytes = static_cast<uint8_t*>(argument);
  switch (request) {
    case 0x4028B501: {
      CHECK_EQ(name, "/dev/rpmsg_ctrl11");
      uint32_t src, dst;
      std::memcpy(&src, bytes + 32, 4);
      std::memcpy(&dst, bytes + 36, 4);
      CHECK_EQ(std::string(reinterpret_cast<char*>(bytes)), "c7x-compute");
      CHECK_EQ(src, 0xFFFFFFFFu);
      CHECK_EQ(dst, 20u);
      if (kernel->create_errno == 0) {
        kernel->created_at = kernel->clock;
        ++kernel->endpoints_made;
        if (kernel->foreign_node) AddEndpoint(kernel->root, "7e000000.dsp", 21, C7X_CLIENT_NAME, "20");
        AddEndpoint(kernel->root, "7e000000.dsp", 20, "something-else", "20");
      }
      return Answer(kernel->create_errno);
    }
    case 0xB502:
      CHECK_EQ(name, "/dev/rpmsg22");
      ++kernel->endpoints_destroyed;
      return 0;
    case 0xC0184800: {
      CHECK_EQ(name, "/dev/dma_heap/carveout_vision_apps_shared-memories");
      uint64_t length, heap_flags;
      uint32_t flags;
      std::memcpy(&length, bytes, 8);
      std::memcpy(&flags, bytes + 12, 4);
      std::memcpy(&heap_flags, bytes + 16, 8);
      CHECK_EQ(length, C7X_CARVEOUT_SIZE);
      CHECK_EQ(flags, static_cast<uint32_t>(O_RDWR | O_CLOEXEC));
      CHECK_EQ(heap_flags, 0u);
      if (kernel->heap_errno != 0) return Answer(kernel->heap_errno);
      const uint32_t buffer = static_cast<uint32_t>(Remember(memfd_create("carveout", MFD_CLOEXEC), "buffer"));
      CHECK_EQ(ftruncate(static_cast<int>(buffer), C7X_CARVEOUT_SIZE), 0);
      std::memcpy(bytes + 8, &buffer, 4);
      return 0;
    }
    case 0xC010B700: {
      CHECK_EQ(name, "/dev/remoteproc4");
      uint32_t buffer;
      std::memcpy(&buffer, bytes, 4);
      CHECK_EQ(kernel->names[static_cast<int>(buffer)], "buffer");
      std::memcpy(bytes + 8, &kernel->phys, 8);
      return Answer(kernel->attach_errno);
    }
    case 0x40086200: {
      CHECK_EQ(name, "buffer");
      uint64_t flags;
      std::memcpy(&flags, argument, 8);
      kernel->syncs.push_back(flags);
      return Answer(kernel->sync_errno);
    }
    default:
      CHECK(false);
  }
  return -1;
}

int64_t FakeNow() { return kernel->clock; }

void FakeSleep(int milliseconds) {
  kernel->clock += milliseconds;
  if (kernel->node_comes && !kernel->node_there && kernel->created_at >= 0 &&
      kernel->clock >= kernel->created_at + kernel->node_after_ms) {
    kernel->node_there = true;
    AddEndpoint(kernel->root, "7e000000.dsp", 22, kernel->hidden_name ? "other" : C7X_CLIENT_NAME, "20");
  }
}

const c7x_kernel kFake = {FakeOpen, FakeIoctl, FakeNow, FakeSleep};

int OpenFiles() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

// Opens a client; with `text` the opening must fail and say so.
c7x_client_t* Open(Kernel* fake, const char* text = nullptr, int code = 0) {
  kernel = fake;
  if (fake->root.empty()) fake->root = MakeTree();
  c7x_error_t error;
  c7x_clear_error(&error);
  const int before = OpenFiles();
  c7x_transport* transport = c7x_rpmsg_open(&kFake, fake->root.c_str(), &error);
  if (text == nullptr) {
    if (transport == nullptr) std::cerr << error.text << "\n";
    CHECK(transport != nullptr);
    c7x_client_t* client = c7x_client_adopt(transport, &error);
    CHECK(client != nullptr);
    return client;
  }
  CHECK(transport == nullptr);
  if (std::strstr(error.text, text) == nullptr) std::cerr << error.text << "\n";
  CHECK(std::strstr(error.text, text) != nullptr);
  CHECK_EQ(error.code, code);
  CHECK_EQ(OpenFiles(), before);  // nothing is left open
  return nullptr;
}

// The DSP: answers `count` requests; an inference has the output that it wrote into the result region.
void Serve(int fd, int count) {
  for (int i = 0; i < count; ++i) {
    uint8_t request[C7X_MAX_MESSAGE];
    const ssize_t got = recv(fd, request, sizeof request, 0);
    CHECK(got >= 16 && got <= C7X_MAX_RPMSG_PAYLOAD);
    c7x_msg_header header;
    std::memcpy(&header, request, sizeof header);
    union {
      c7x_ping_response ping;
      c7x_dyn_load_response load;
      c7x_infer_response infer;
      c7x_msg_header bare;
    } answer;
    std::memset(&answer, 0, sizeof answer);
    uint32_t size = sizeof(c7x_msg_header), type = header.type | C7X_MSG_RESPONSE;
    if (header.type == C7X_MSG_PING) {
      size = sizeof answer.ping;
      answer.ping.version = 0x020000;
    } else if (header.type == C7X_MSG_DYN_LOAD) {
      size = sizeof answer.load;
      answer.load.module_handle = 1;
    } else if (header.type == C7X_MSG_INFER_LARGE) {
      size = sizeof answer.infer;
      type = C7X_MSG_INFER_RESPONSE;
      answer.infer.num_outputs = 1;
      answer.infer.outputs[0].data_addr = C7X_RESULT_ADDR;
      answer.infer.outputs[0].data_size = 4;
      answer.infer.outputs[0].ndim = 1;
      answer.infer.outputs[0].dtype_bits = 32;
      answer.infer.outputs[0].shape[0] = 1;
    }
    answer.bare = {type, header.seq, size, 0};
    CHECK_EQ(send(fd, &answer, size, 0), static_cast<ssize_t>(size));
  }
}

void Session() {
  Kernel fake;
  fake.foreign_node = true;
  const int before = OpenFiles();
  c7x_client_t* client = Open(&fake);
  CHECK_EQ(fake.opened["/dev/rpmsg_ctrl11"], 1);
  CHECK_EQ(fake.opened["/dev/rpmsg22"], 1);
  CHECK(fake.opened["/dev/rpmsg21"] >= 1);  // tried, and left to its owner
  CHECK_EQ(fake.opened.count("/dev/rpmsg4"), 0u);
  CHECK_EQ(fake.opened.count("/dev/rpmsg9"), 0u);
  CHECK_EQ(fake.opened.count("/dev/rpmsg20"), 0u);
  CHECK(fake.clock < 200);

  // The lock keeps a second client away before it asks for anything.
  Kernel second;
  second.root = fake.root;
  Open(&second, "busy", C7X_CLIENT_ERR_BUSY);
  CHECK_EQ(second.endpoints_made, 0);
  CHECK(second.opened.empty());
  kernel = &fake;

  std::thread dsp(Serve, fake.peer, 4);  // ping, load, infer, unload
  uint32_t version = 0, handle = 0;
  CHECK_EQ(c7x_client_ping(client, &version, nullptr), 0);
  CHECK_EQ(version, 0x020000u);
  CHECK(fake.syncs.empty());  // no memory is involved
  const std::string module = fake.root + "/module";
  WriteFile(module, "ELF");
  CHECK_EQ(c7x_client_dyn_load(client, module.c_str(), &handle), 0);
  CHECK_EQ(fake.syncs.size(), 1u);
  CHECK_EQ(fake.syncs[0], 6u);
  float x = 1;
  c7x_tensor_desc_t in = {&x, 4, 1, 2, 32, {1}}, out[C7X_CLIENT_MAX_OUTPUTS];
  int count = 0;
  CHECK_EQ(c7x_client_infer(client, handle, 0, &in, 1, out, &count, nullptr), 0);
  CHECK_EQ(count, 1);
  CHECK_EQ(fake.syncs.size(), 3u);  // once to the DSP, once from it
  CHECK_EQ(fake.syncs[1], 6u);
  CHECK_EQ(fake.syncs[2], 1u);
  CHECK_EQ(c7x_client_dyn_unload(client, handle), 0);
  dsp.join();

  // Results of system calls are not ignored.
  fake.sync_errno = EIO;
  CHECK_EQ(c7x_client_dyn_load(client, module.c_str(), &handle), -EIO);
  fake.sync_errno = 0;

  c7x_client_close(client);
  CHECK_EQ(fake.endpoints_made, 1);
  CHECK_EQ(fake.endpoints_destroyed, 1);
  close(fake.peer);
  CHECK_EQ(OpenFiles(), before);
}

void Failures() {
  {
    Kernel fake;
    fake.root = "/nonexistent";
    Open(&fake, "no rpmsg control device", C7X_CLIENT_ERR_NO_DEVICE);
  }
  {
    Kernel fake;
    fake.create_errno = EINVAL;
    Open(&fake, "cannot create an endpoint", EINVAL);
  }
  {
    Kernel fake;
    fake.heap_errno = ENOMEM;
    Open(&fake, "its shared memory is in use", C7X_CLIENT_ERR_BUSY);
    CHECK_EQ(fake.endpoints_made, 0);
  }
  {
    Kernel fake;
    fake.heap_errno = EPERM;
    Open(&fake, "cannot allocate", EPERM);
  }
  {
    Kernel fake;
    fake.attach_errno = EINVAL;
    Open(&fake, "cannot attach", EINVAL);
  }
  {
    Kernel fake;
    fake.phys = 0x880000000;
    Open(&fake, "0x880000000", C7X_CLIENT_ERR_NO_DEVICE);
  }
  {
    Kernel fake;
    fake.node_comes = false;
    Open(&fake, "did not appear", C7X_CLIENT_ERR_NO_DEVICE);
    CHECK(fake.clock >= 2000 && fake.clock < 2100);
  }
  {
    Kernel fake;
    fake.hidden_name = true;
    Open(&fake, "did not appear", C7X_CLIENT_ERR_NO_DEVICE);
  }
  {
    Kernel fake;
    fake.root = MakeTree();
    WriteFile(fake.root + "/sys/class/remoteproc/remoteproc4/state", "crashed\n");
    Open(&fake, "the DSP is crashed", C7X_CLIENT_ERR_NO_DEVICE);
    // What failed holds no lock.
    WriteFile(fake.root + "/sys/class/remoteproc/remoteproc4/state", "running\n");
    c7x_client_close(Open(&fake));
    close(fake.peer);
  }
}

}  // namespace

int main() {
  Session();
  Failures();
  std::puts("ok");
  return 0;
}
