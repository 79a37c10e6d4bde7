// An accelerator in software: memory, streams, events and random numbers of its own; its arithmetic is the processor's.
//
// The device stands on PyTorch's key for private backends. Every operation without a kernel here runs on copies in the
// processor's memory, so that what it computes is what the processor computes, while everything around the arithmetic
// behaves as on a graphics card: memory ends, tensors of two devices do not mix, copies to the host may be late, and
// every wait for the device is counted.

#include <ATen/InferSize.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

namespace {

constexpr c10::DeviceIndex kDevices = 2;
constexpr size_t kGranule = 512;  // bytes; CUDA's allocator rounds to as many
constexpr size_t kUnlimited = size_t{1} << 40;
constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr auto kKey = c10::DispatchKey::PrivateUse1;

// ---------------------------------------------------------------------------------------------------------------- state

struct Late {
  int64_t due;  // the count of launches at which the work is done
  std::function<void()> work;
  c10::StreamId stream = 0;
  std::function<void()> begin = [] {};  // what another stream that waits for it finds
};

struct Card {
  size_t limit = kUnlimited;
  size_t used = 0;
  size_t peak = 0;
  int64_t launched = 0;
  int64_t computed = 0;  // of these, by the stream that computes
  int64_t disorder = 0;  // memory that was used before its time or after it
  std::map<c10::StreamId, int64_t> awaited;  // how much of what was computed a stream waits for
  int64_t done = 0;  // launches up to here have finished
  int64_t allocations = 0;
  int64_t failing_from = -1;  // the allocation from which on the memory ends; -1: none
  int64_t failing_count = 0;
  std::deque<Late> late;
  std::map<std::string, int64_t> waits;  // by what waited
  std::map<std::string, int64_t> fallen_back;
};

std::recursive_mutex guard;
std::array<Card, kDevices> cards;
constexpr int64_t kLag = 8;
int64_t lag = kLag;  // launches by which the device is behind the program
constexpr int64_t kLarge = 30000;  // numbers of a tensor from which on its arithmetic can be left out: above tables of places
bool idle = false;  // large tensors of floating point are allocated, and hold whatever lies there
thread_local c10::DeviceIndex current = 0;
thread_local std::array<c10::StreamId, kDevices> current_stream{};
thread_local int inside = 0;  // in a kernel of our own: its copies are no waits
std::atomic<c10::StreamId> next_stream{1};

struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

Card& card_of(c10::DeviceIndex index) { return cards.at(index < 0 ? current : index); }

void finish_until(Card& card, int64_t count) {
  card.done = std::max(card.done, std::min(count, card.launched));
  while (!card.late.empty() && card.late.front().due <= card.done) {
    auto work = std::move(card.late.front().work);
    card.late.pop_front();
    work();
  }
}

void launch(c10::DeviceIndex index) {
  if (inside) return;
  std::lock_guard<std::recursive_mutex> lock(guard);
  auto& card = card_of(index);
  ++card.launched;
  if (current_stream[index < 0 ? current : index] == 0) ++card.computed;
  finish_until(card, card.launched - lag);
}

pybind11::object* on_wait = nullptr;  // called with the index and the reason of each wait
int64_t left_to_do = 0;  // launches of the stream that computes which the last wait was not for

void count_wait(c10::DeviceIndex index, const std::string& what, int64_t left = 0) {
  if (inside) return;
  left_to_do = left;
  {
    std::lock_guard<std::recursive_mutex> lock(guard);
    ++card_of(index).waits[what];
  }
  if (on_wait) {
    pybind11::gil_scoped_acquire held;
    if (!on_wait->is_none()) (*on_wait)(static_cast<int>(index < 0 ? current : index), what);
  }
}

void wait(c10::DeviceIndex index, const std::string& what) {
  if (inside) return;
  count_wait(index, what);
  std::lock_guard<std::recursive_mutex> lock(guard);
  auto& card = card_of(index);
  finish_until(card, card.launched);
}

// --------------------------------------------------------------------------------------------------------------- faults

// A kernel of this name hands its arguments and its results to a function, which may write other numbers into the results.
std::map<std::string, pybind11::object> faults;
std::map<at::ScalarType, double> pace;  // by how much kernels in a type take longer than they do

const pybind11::object* fault_of(const std::string& name) {
  if (faults.empty()) return nullptr;
  auto found = faults.find(name);
  return found == faults.end() ? nullptr : &found->second;
}

void meddle(const std::string& name, const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& results,
    const std::vector<double>& numbers = {}) {
  const auto* fault = fault_of(name);
  if (!fault) return;
  pybind11::gil_scoped_acquire held;
  (*fault)(name, arguments, results, numbers);
}

struct Paced {
  explicit Paced(const at::Tensor& first) : factor(1.0), from(std::chrono::steady_clock::now()) {
    if (pace.empty() || !first.defined()) return;
    auto found = pace.find(first.scalar_type());
    if (found != pace.end()) factor = found->second;
  }
  ~Paced() {
    if (factor > 1.0) std::this_thread::sleep_for((std::chrono::steady_clock::now() - from) * (factor - 1.0));
  }
  double factor;
  std::chrono::steady_clock::time_point from;
};

// --------------------------------------------------------------------------------------------------------------- memory

struct Block {
  size_t size;
  c10::DeviceIndex device;
  int64_t born;  // the count of what was computed: before that the memory may have been something else's
};
std::unordered_map<void*, Block> blocks;

void release(void* pointer) {
  if (!pointer) return;
  std::lock_guard<std::recursive_mutex> lock(guard);
  auto found = blocks.find(pointer);
  if (found == blocks.end()) return;
  cards[found->second.device].used -= found->second.size;
  blocks.erase(found);
  std::free(pointer);
}

struct CardAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    const auto device = c10::Device(kType, current);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    auto& card = cards[current];
    const size_t size = (bytes + kGranule - 1) / kGranule * kGranule;
    const auto number = card.allocations++;
    const bool fails = card.failing_from >= 0 && number >= card.failing_from && number < card.failing_from + card.failing_count;
    TORCH_CHECK_WITH(OutOfMemoryError, !fails && card.used + size <= card.limit,
        "card out of memory. Tried to allocate ", bytes, " bytes. Card ", static_cast<int>(current), " has a total capacity of ",
        card.limit, " bytes of which ", card.limit - std::min(card.used, card.limit), " bytes are free.");
    void* pointer = nullptr;
    TORCH_CHECK(posix_memalign(&pointer, 64, size) == 0, "The machine has no memory for the card in software.");
    blocks[pointer] = {size, current, card.computed};
    card.used += size;
    card.peak = std::max(card.peak, card.used);
    return {pointer, pointer, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& card = card_of(index);
    for (auto* entry : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*entry)[0].current = static_cast<int64_t>(card.used);
      (*entry)[0].peak = static_cast<int64_t>(card.peak);
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    card_of(index).peak = card_of(index).used;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    auto& card = card_of(index);
    return {card.limit - std::min(card.used, card.limit), card.limit};
  }
};
CardAllocator allocator;

std::map<const char*, size_t> pinned;
size_t pinned_limit = kUnlimited;

void release_pinned(void* pointer) {
  std::lock_guard<std::recursive_mutex> lock(guard);
  pinned.erase(static_cast<const char*>(pointer));
  std::free(pointer);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::DeviceType::CPU)};
    void* pointer = nullptr;
    size_t held = bytes;
    for (const auto& one : pinned) held += one.second;
    TORCH_CHECK(held <= pinned_limit && posix_memalign(&pointer, 64, bytes) == 0, "The machine has no memory to pin.");
    pinned[static_cast<const char*>(pointer)] = bytes;
    return {pointer, pointer, &release_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
};
PinnedAllocator pinned_allocator;

bool is_pinned(const void* pointer) {
  std::lock_guard<std::recursive_mutex> lock(guard);
  auto after = pinned.upper_bound(static_cast<const char*>(pointer));
  if (after == pinned.begin()) return false;
  --after;
  return static_cast<const char*>(pointer) < after->first + after->second;
}

// ------------------------------------------------------------------------------------------------------- random numbers

// The numbers come from a generator of the processor whose seed is another one: equal seeds give other noise, as on CUDA.
struct CardGenerator final : c10::GeneratorImpl {
  explicit CardGenerator(c10::DeviceIndex index)
      : GeneratorImpl(c10::Device(kType, index), c10::DispatchKeySet(kKey)), inner(at::detail::createCPUGenerator()) {
    set_current_seed(c10::default_rng_seed_val);
  }
  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    inner.set_current_seed(seed ^ 0x5CA1AB1Eull);
  }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "This generator has no offset."); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "This generator has no offset."); }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    const auto chosen = c10::detail::getNonDeterministicRandom();
    set_current_seed(chosen);
    return chosen;
  }
  void set_state(const c10::TensorImpl& state) override { inner.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner.unsafeGetGeneratorImpl()->get_state(); }
  CardGenerator* clone_impl() const override {
    auto* made = new CardGenerator(device().index());
    made->seed_ = seed_;
    made->inner = inner.clone();
    return made;
  }
  at::Generator inner;
  uint64_t seed_ = 0;
};

at::Generator& default_generator(c10::DeviceIndex index) {
  static std::array<at::Generator, kDevices> made{at::make_generator<CardGenerator>(0), at::make_generator<CardGenerator>(1)};
  return made.at(index < 0 ? current : index);
}

// ----------------------------------------------------------------------------------------------------- devices, streams

struct Event {
  int64_t due = -1;  // the count of launches that it waits for; -1: never recorded
  int64_t computed = 0;  // launches of the stream that computes, at that time
  c10::StreamId stream = 0;
  c10::DeviceIndex device = 0;
  std::chrono::steady_clock::time_point at;
};

struct CardGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    auto old = getDevice();
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0) return;
    TORCH_CHECK(device.index() < kDevices, "invalid device ordinal");
    current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < kDevices) current = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    auto index = device.index() < 0 ? current : device.index();
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), current_stream[index]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device.index() < 0 ? current : device.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device.index() < 0 ? current : device.index()), next_stream++);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto old = getStream(stream.device());
    current_stream[stream.device_index()] = stream.id();
    return old;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    if (!*event) *event = new Event();
    auto* mine = static_cast<Event*>(*event);
    mine->device = stream.device_index();
    mine->due = cards[mine->device].launched;
    mine->stream = stream.id();
    mine->computed = cards[mine->device].computed;
    mine->at = std::chrono::steady_clock::now();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    std::lock_guard<std::recursive_mutex> lock(guard);
    auto* mine = static_cast<Event*>(event);
    auto& awaited = cards[mine->device].awaited[stream.id()];
    if (mine->stream == 0) awaited = std::max(awaited, mine->computed);
    for (auto& one : cards[mine->device].late)
      if (one.stream == mine->stream && one.due <= mine->due) one.begin();
  }
  bool queryEvent(void* event) const override {
    if (!event) return true;
    std::lock_guard<std::recursive_mutex> lock(guard);
    auto* mine = static_cast<Event*>(event);
    auto& card = cards[mine->device];
    const bool done = mine->due <= card.done;
    finish_until(card, card.done + 1);  // who asks again and again gets there
    return done;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& stream) const override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    auto& card = cards[stream.device_index()];
    finish_until(card, card.done + 1);
    return card.done >= card.launched;
  }
  void synchronizeStream(const c10::Stream& stream) const override { wait(stream.device_index(), "stream"); }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    auto* mine = static_cast<Event*>(event);
    if (mine->due > cards[mine->device].done) count_wait(mine->device, "event", cards[mine->device].computed - mine->computed);
    std::lock_guard<std::recursive_mutex> lock(guard);
    finish_until(cards[mine->device], mine->due);
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override { wait(index, "synchronize"); }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(static_cast<Event*>(second)->at - static_cast<Event*>(first)->at).count();
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, CardGuard)

struct CardHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { CardGuard().setDevice({kType, index}); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    auto old = current;
    if (index >= 0) setCurrentDevice(index);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<CardGenerator>(index < 0 ? current : index);
  }
  at::Device getDeviceFromPtr(void* pointer) const override {
    std::lock_guard<std::recursive_mutex> lock(guard);
    auto found = blocks.find(pointer);
    return {kType, found == blocks.end() ? current : found->second.device};
  }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DeviceGuard here(storage.device());
    auto made = allocator.allocate(bytes);
    if (storage.data() && made.get()) std::memcpy(made.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(made));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

// --------------------------------------------------------------------------------------------------------------- copies

// The same bytes as a tensor of the processor. It owns nothing: the tensor has to live as long.
at::Tensor as_host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  c10::Storage same(c10::Storage::use_byte_size_t(), storage->nbytes(),
      c10::DataPtr(const_cast<void*>(storage->data()), c10::Device(c10::DeviceType::CPU)), nullptr, false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  made._set_conj(tensor.is_conj());
  made._set_neg(tensor.is_neg());
  return made;
}

// From pinned memory, which nobody may write before it was read. On a stream of its own the copy is late: what computes has to wait
// for its event, and it for what was computed with the same memory before.
void send(const at::Tensor& self, const at::Tensor& to, c10::DeviceIndex index) {
  struct Crossing {
    at::Tensor from, seen;
    c10::weak_intrusive_ptr<c10::StorageImpl> alive;
    std::function<void(const at::Tensor&)> arrive;
  };
  std::lock_guard<std::recursive_mutex> lock(guard);
  auto& card = card_of(index);
  const auto stream = current_stream[index];
  auto storage = to.storage().getWeakStorageImpl();
  const auto sizes = to.sizes().vec(), strides = to.strides().vec();
  const auto offset = to.storage_offset();
  const auto options = to.options();
  auto crossing = std::make_shared<Crossing>(Crossing{self, {}, storage, {}});
  auto begin = [crossing, sizes, strides, offset, options, index] {
    if (crossing->seen.defined()) return;
    crossing->seen = crossing->from.clone();
    auto held = crossing->alive.lock();
    if (!held) {
      ++card_of(index).disorder;  // its memory may be something else's now
      return;
    }
    Inside now;
    auto there = at::empty({0}, options);
    there.set_(c10::Storage(std::move(held)), offset, sizes, strides);
    as_host(there).copy_(crossing->seen);
    meddle("copy from pinned memory", {crossing->from}, {as_host(there)});
  };
  auto end = [crossing, begin, index] {
    begin();
    const auto now = crossing->from.contiguous(), then = crossing->seen.contiguous();
    if (std::memcmp(now.data_ptr(), then.data_ptr(), now.nbytes()) != 0) ++card_of(index).disorder;
  };
  if (stream == 0) {
    begin();
  } else {
    auto found = blocks.find(to.storage().mutable_data());
    if (found != blocks.end() && found->second.born > card.awaited[stream]) ++card.disorder;
    if (to.is_non_overlapping_and_dense()) std::memset(to.mutable_data_ptr(), 0xFF, to.nbytes());
  }
  card.late.push_back({card.launched, end, stream, begin});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  const bool from_card = self.device().type() == kType, to_card = to.device().type() == kType;
  const auto index = from_card ? self.device().index() : to.device().index();
  launch(index);
  if (from_card && !to_card) {
    if (non_blocking && !inside && is_pinned(to.storage().data())) {
      std::lock_guard<std::recursive_mutex> lock(guard);
      auto& card = card_of(index);
      auto snapshot = at::empty(self.sizes(), to.options());
      snapshot.copy_(as_host(self));
      meddle("copy to pinned memory", {self}, {snapshot});
      card.late.push_back({card.launched, [snapshot, to] { const_cast<at::Tensor&>(to).copy_(snapshot); }});
      return to;
    }
    wait(index, "copy to the host");
  } else if (!from_card && to_card && !inside && !(non_blocking && is_pinned(self.storage().data()))) {
    count_wait(index, "copy from pageable memory");
  }
  const bool left = idle && to_card && to.is_floating_point() && to.numel() >= kLarge;
  if (!left && !from_card && !inside && non_blocking && is_pinned(self.storage().data())) {
    send(self, to, index);
    return to;
  }
  if (!left) as_host(to).copy_(as_host(self));
  if (from_card && to_card) meddle("copy", {as_host(self)}, {as_host(to)});
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  at::native::resize_(to, self.sizes(), std::nullopt);
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  wait(self.device().index(), "item");
  return as_host(self).item();
}

// -------------------------------------------------------------------------------------------------------- the rest of it

const std::set<std::string> kWaiting = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
    "aten::unique_consecutive", "aten::repeat_interleave", "aten::equal", "aten::bincount", "aten::linalg_eigh"};
const std::set<std::string> kIndexing = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"};

struct Seen {
  std::optional<c10::Device> device;
  void look(const at::Tensor& tensor, bool host_allowed, const std::string& name) {
    if (!tensor.defined()) return;
    if (tensor.device().is_cpu() && (tensor.dim() == 0 || host_allowed)) return;
    if (!device) device = tensor.device();
    TORCH_CHECK(*device == tensor.device(), "Expected all tensors to be on the same device, but found at least two devices, ", *device,
        " and ", tensor.device(), "! (when checking argument for ", name, ")");
  }
};

bool left_out(const at::Tensor& tensor) { return idle && tensor.is_floating_point() && tensor.numel() >= kLarge; }

at::Tensor as_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::empty_strided_symint(tensor.sym_sizes(), tensor.sym_strides(), tensor.options().device(at::kMeta));
}

// The results of an operation as its kernel for shapes has them, without its arithmetic; false where there is none.
bool allocate_alone(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DeviceIndex index) {
  const auto& schema = op.schema();
  const auto first = stack->size() - schema.arguments().size();
  bool large = false;
  torch::jit::Stack shapes;
  for (size_t place = 0; place < schema.arguments().size(); ++place) {
    const auto& value = (*stack)[first + place];
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (tensor.defined() && !tensor.is_floating_point() && schema.arguments()[place].alias_info()) return false;
      large = large || (tensor.defined() && left_out(tensor));
      shapes.push_back(as_meta(tensor));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& one : value.toTensorVector()) {
        large = large || left_out(one);
        list.push_back(as_meta(one));
      }
      shapes.push_back(list);
    } else if (value.isOptionalTensorList() || value.isGenerator() || value.isDevice()) {
      return false;
    } else {
      shapes.push_back(value);
    }
  }
  if (!large) return false;
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &shapes);
  } catch (const std::exception&) {
    return false;
  }
  std::vector<c10::IValue> results;
  for (size_t place = 0; place < schema.returns().size(); ++place) {
    const auto* alias = schema.returns()[place].alias_info();
    if (!shapes[place].isTensor()) return false;
    if (!alias) {
      const auto& shape = shapes[place].toTensor();
      results.emplace_back(shape.defined() ? at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(c10::Device(kType, index))) : shape);
      continue;
    }
    for (size_t own = 0; own < schema.arguments().size(); ++own) {
      const auto* info = schema.arguments()[own].alias_info();
      if (!info || !(*info == *alias)) continue;
      const auto& written = (*stack)[first + own].toTensor();
      if (const auto& shape = shapes[place].toTensor(); written.sizes() != shape.sizes())
        at::native::resize_(written, shape.sizes(), std::nullopt);
      results.push_back(written);
    }
  }
  if (results.size() != schema.returns().size()) return false;
  torch::jit::drop(*stack, schema.arguments().size());
  for (auto& result : results) stack->push_back(std::move(result));
  return true;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& name = op.schema().operator_name().name;
  const auto& arguments = op.schema().arguments();
  const auto first = stack->size() - arguments.size();
  Seen seen;
  const bool indexing = kIndexing.count(name) > 0;
  bool waits = kWaiting.count(name) > 0;
  std::optional<c10::Device> wanted;
  for (size_t place = 0; place < arguments.size(); ++place) {
    auto& value = (*stack)[first + place];
    const bool host_allowed = indexing && place > 0;
    if (value.isTensor()) {
      seen.look(value.toTensor(), host_allowed, name);
    } else if (value.isTensorList()) {
      for (const auto& one : value.toTensorVector()) seen.look(one, host_allowed, name);
    } else if (value.isOptionalTensorList()) {
      for (const auto& one : value.toOptionalTensorVector())
        if (one) {
          seen.look(*one, host_allowed, name);
          waits = waits || (name != "aten::index" && one->scalar_type() == at::kBool);  // index has called nonzero before
        }
    } else if (value.isGenerator()) {
      auto given = value.toGenerator();
      TORCH_CHECK(given.device().type() == kType, "Expected a 'card' device type for generator but found '", given.device().type(), "'");
      (*stack)[first + place] = static_cast<CardGenerator*>(given.unsafeGetGeneratorImpl())->inner;
    } else if (value.isDevice()) {
      wanted = value.toDevice();
    }
  }
  const auto index = seen.device ? seen.device->index() : wanted ? wanted->index() : current;
  for (size_t place = 0; place < arguments.size(); ++place)  // no generator given: the device's own
    if (arguments[place].name() == "generator" && (*stack)[first + place].isNone())
      (*stack)[first + place] = static_cast<CardGenerator*>(default_generator(index).unsafeGetGeneratorImpl())->inner;
  launch(index);
  if (waits) wait(index, name);
  {
    std::lock_guard<std::recursive_mutex> lock(guard);
    ++card_of(index).fallen_back[name];
  }
  Inside now;
  const auto there = index < 0 ? current : index;
  c10::OptionalDeviceGuard here(c10::Device(kType, there));
  if (idle && allocate_alone(op, stack, there)) return;
  const bool lies = fault_of(name) != nullptr;
  std::vector<at::Tensor> before;
  std::vector<double> numbers;
  at::Tensor leading;
  for (size_t place = 0; place < arguments.size(); ++place) {
    const auto& value = (*stack)[first + place];
    if (value.isTensor() && !leading.defined()) leading = value.toTensor();
    if (!lies) continue;
    if (value.isTensor()) before.push_back(value.toTensor().defined() ? as_host(value.toTensor()).clone() : at::Tensor());
    else if (arguments[place].type()->kind() == c10::TypeKind::OptionalType && value.isNone()) before.emplace_back();
    else if (value.isScalar()) numbers.push_back(value.toScalar().toDouble());
  }
  Paced paced(leading);
  at::native::cpu_fallback(op, stack);
  if (!lies) return;
  std::vector<at::Tensor> results;
  for (const auto& value : torch::jit::last(*stack, op.schema().returns().size()))
    if (value.isTensor() && value.toTensor().defined()) results.push_back(as_host(value.toTensor()));
  meddle(name, before, results, numbers);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device> device,
    std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard here(device);
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(kKey), c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard here(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(kKey), c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}
at::Tensor& set_source(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }
at::Tensor& set_storage(at::Tensor& self, at::Storage storage) { return at::native::set_(self, storage); }
at::Tensor& set_storage_offset(at::Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::set_storage_cpu_(self, storage, offset.guard_int(__FILE__, __LINE__), C10_AS_INTARRAYREF_SLOW(size),
      C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor to_card(const at::Tensor& host, c10::DeviceIndex index) {
  return host.defined() ? host.to(c10::Device(kType, index)) : host;
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  Seen seen;
  for (const auto& one : {input, weight, bias.value_or(at::Tensor())}) seen.look(one, false, "aten::convolution");
  launch(input.device().index());
  Inside now;
  if (left_out(input)) {
    const auto shape = at::convolution_symint(as_meta(input), as_meta(weight), bias ? std::optional(as_meta(*bias)) : std::nullopt, stride,
        padding, dilation, transposed, output_padding, groups);
    return at::empty_strided(shape.sizes(), shape.strides(), input.options());
  }
  Paced paced(input);
  const auto host_bias = bias && bias->defined() ? std::optional(as_host(*bias)) : std::nullopt;
  auto result = at::convolution_symint(as_host(input), as_host(weight), host_bias, stride, padding, dilation, transposed, output_padding, groups);
  if (fault_of("convolution")) {
    std::vector<double> numbers;
    for (const auto& list : {stride, padding, dilation, output_padding})
      for (const auto& one : list) numbers.push_back(static_cast<double>(one.expect_int()));
    numbers.push_back(transposed);
    numbers.push_back(static_cast<double>(groups.expect_int()));
    meddle("convolution", {as_host(input), as_host(weight), host_bias.value_or(at::Tensor())}, {result}, numbers);
  }
  return to_card(result, input.device().index());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
    const at::Tensor& weight, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> wanted) {
  Seen seen;
  for (const auto& one : {gradient, input, weight}) seen.look(one, false, "aten::convolution_backward");
  const auto index = input.device().index();
  launch(index);
  Inside now;
  const std::vector<c10::SymInt> bias{transposed ? weight.sym_size(1) * groups : weight.sym_size(0)};
  auto [first, second, third] = at::convolution_backward_symint(as_host(gradient), as_host(input), as_host(weight),
      c10::SymIntArrayRef(bias), stride, padding, dilation, transposed, output_padding, groups, wanted);
  return {to_card(first, index), to_card(second, index), to_card(third, index)};
}

// Its running means are written in place, though its schema does not say so.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& mean, const std::optional<at::Tensor>& variance, bool training,
    double momentum, double epsilon) {
  Seen seen;
  const auto host = [&](const std::optional<at::Tensor>& one) {
    if (!one || !one->defined()) return std::optional<at::Tensor>();
    seen.look(*one, false, "aten::batch_norm");
    return std::optional(as_host(*one));
  };
  const auto index = input.device().index();
  launch(index);
  Inside now;
  auto [made, first, second] = at::native_batch_norm(*host(input), host(weight), host(bias), host(mean), host(variance), training, momentum, epsilon);
  return {to_card(made, index), to_card(first, index), to_card(second, index)};
}

// ------------------------------------------------------------------------------------------------------------ attention

// As on a graphics card: flash attention for 16-bit types without a mask, the memory-efficient one for all, else plain products.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout, bool, std::optional<double>, bool grouped) {
  const auto& context = at::globalContext();
  const bool fits = query.dim() == 4 && dropout == 0.0 && !grouped && query.size(-1) == value.size(-1) && query.size(1) == key.size(1) &&
      query.size(0) == key.size(0) && key.size(2) == value.size(2);
  const bool narrow = query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16;
  const bool masked = mask && mask->defined();
  if (fits && narrow && !masked && context.userEnabledFlashSDP()) return 1;
  if (fits && !(masked && mask->requires_grad()) && context.userEnabledMemEfficientSDP()) return 2;
  TORCH_CHECK(context.userEnabledMathSDP(), "No viable backend for scaled_dot_product_attention was found.");
  return 0;
}

std::tuple<at::Tensor, at::Tensor> attend(const std::string& name, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, bool causal, std::optional<double> scale) {
  Seen seen;
  for (const auto& one : {query, key, value, mask.value_or(at::Tensor())}) seen.look(one, false, "aten::scaled_dot_product_attention");
  const auto index = query.device().index();
  launch(index);
  Inside now;
  if (left_out(query)) {  // laid out as the kernels of cards lay it out
    auto laid = at::empty({query.size(0), query.size(2), query.size(1), value.size(3)}, query.options()).transpose(1, 2);
    return {laid, at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat))};
  }
  Paced paced(query);
  const auto host_mask = mask && mask->defined() ? std::optional(as_host(*mask)) : std::nullopt;
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      as_host(query), as_host(key), as_host(value), 0.0, causal, host_mask, scale);
  meddle(name, {as_host(query), as_host(key), as_host(value), host_mask.value_or(at::Tensor())}, {out},
      {static_cast<double>(causal), scale.value_or(0.0)});
  return {to_card(out, index), to_card(sums, index)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attend_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const std::optional<at::Tensor>& mask, const at::Tensor& out, const at::Tensor& sums, bool causal,
    std::optional<double> scale) {
  const auto index = query.device().index();
  launch(index);
  Inside now;
  auto [first, second, third] = at::_scaled_dot_product_flash_attention_for_cpu_backward(as_host(gradient), as_host(query), as_host(key),
      as_host(value), as_host(out), as_host(sums), 0.0, causal, mask && mask->defined() ? std::optional(as_host(*mask)) : std::nullopt, scale);
  return {to_card(first, index), to_card(second, index), to_card(third, index)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor> flash(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double, bool causal, bool, std::optional<double> scale) {
  auto [out, sums] = attend("flash", query, key, value, std::nullopt, causal, scale);
  const auto none = at::empty({0}, at::dtype(at::kLong));
  return {out, sums, none, none, query.size(2), key.size(2), none, none, at::empty({0}, query.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
    double, bool causal, const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  return attend_backward(gradient, query, key, value, std::nullopt, out, sums, causal, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, bool, double, bool causal, std::optional<double> scale) {
  auto [out, sums] = attend("efficient", query, key, value, mask, causal, scale);
  const auto none = at::empty({}, at::dtype(at::kLong));
  return {out, sums, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(const at::Tensor& gradient, const at::Tensor& query,
    const at::Tensor& key, const at::Tensor& value, const at::Tensor& mask, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&,
    const at::Tensor&, double, std::array<bool, 4>, bool causal, std::optional<double> scale) {
  auto [first, second, third] = attend_backward(gradient, query, key, value, mask, out, sums, causal, scale);
  return {first, second, third, at::Tensor()};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize);
  m.impl("set_.source_Tensor", &set_source);
  m.impl("set_.source_Storage", &set_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage_offset);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  // PyTorch's own composition of these asks for dense inputs, or resizes what it made, which the kernels of real cards do not.
  for (const auto* name : {"native_group_norm", "native_group_norm_backward", "native_layer_norm", "native_layer_norm_backward",
           "mse_loss", "smooth_l1_loss"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  m.impl("_fused_sdp_choice", &choose_attention);
  m.impl("_scaled_dot_product_flash_attention", &flash);
  m.impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
  m.impl("_scaled_dot_product_efficient_attention", &efficient);
  m.impl("_scaled_dot_product_efficient_attention_backward", &efficient_backward);
  m.impl("native_batch_norm", &batch_norm);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

// A copy is what resolves these, so it cannot wait for that.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FULL_BY_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at::autocast;
  using at::IntArrayRef, at::Scalar, at::ScalarType, at::Tensor;
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FULL)
  AT_FORALL_FP32_SET_OPT_DTYPE(FULL_BY_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)
}  // namespace at::native

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  static CardHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kType, &allocator);
  m.def("set_limit", [](int device, size_t bytes) { card_of(device).limit = bytes; });
  m.def("set_pinned_limit", [](size_t bytes) { pinned_limit = bytes; });
  m.def("pinned", [] {
    size_t held = 0;
    for (const auto& one : pinned) held += one.second;
    return held;
  });
  m.def("fail_allocations", [](int device, int64_t from, int64_t count) {
    card_of(device).failing_from = from < 0 ? -1 : card_of(device).allocations + from;
    card_of(device).failing_count = count;
  });
  m.def("allocations", [](int device) { return card_of(device).allocations; });
  m.def("set_idle", [](bool wanted) { idle = wanted; });
  m.def("set_lag", [](int64_t launches) { lag = launches; });
  m.def("used", [](int device) { return card_of(device).used; });
  m.def("peak", [](int device) { return card_of(device).peak; });
  m.def("launched", [](int device) { return card_of(device).launched; });
  m.def("waits", [](int device) { return card_of(device).waits; });
  m.def("disorder", [](int device) {
    auto& card = card_of(device);
    finish_until(card, card.launched);
    return card.disorder;
  });
  m.def("left_to_do", [] { return left_to_do; });
  m.def("fallen_back", [](int device) { return card_of(device).fallen_back; });
  m.def("forget_counts", [](int device) {
    card_of(device).waits.clear();
    card_of(device).fallen_back.clear();
  });
  m.def("set_on_wait", [](pybind11::object hook) {
    static auto* kept = new pybind11::object();
    *kept = hook;
    on_wait = kept;
  });
  m.def("set_fault", [](const std::string& kernel, pybind11::object fault) { faults[kernel] = fault; });
  m.def("set_pace", [](at::ScalarType dtype, double factor) { pace[dtype] = factor; });
  m.def("largest", [](int device) {  // the largest block of a card's memory, as bytes
    std::lock_guard<std::recursive_mutex> lock(guard);
    std::pair<size_t, void*> found{0, nullptr};
    for (const auto& [pointer, block] : blocks)
      if (block.device == device) found = std::max(found, {block.size, pointer});
    return at::from_blob(found.second, {static_cast<int64_t>(found.first)}, at::kByte);
  });
  m.def("reset", [] {
    faults.clear();
    pace.clear();
    std::lock_guard<std::recursive_mutex> lock(guard);
    lag = kLag;
    idle = false;
    pinned_limit = kUnlimited;
    CardGuard().setDevice({kType, 0});
    for (auto& card : cards) {
      finish_until(card, card.launched);
      card.limit = kUnlimited;
      card.failing_from = -1;
      card.waits.clear();
      card.fallen_back.clear();
      card.disorder = 0;
    }
  });
  m.def("current_device", [] { return static_cast<int>(current); });
  m.def("set_device", [](int device) { CardGuard().setDevice({kType, static_cast<c10::DeviceIndex>(device)}); });
  m.def("default_generator", [](int device) { return default_generator(static_cast<c10::DeviceIndex>(device)); });
}
