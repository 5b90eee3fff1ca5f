/* Functions of torch's `libc10_cuda.so` and `libtorch_cuda.so` that CUDA extensions call: devices, streams and errors.
   torch's CPU wheel has their headers, with which wsemu compiles this file for the program's version of torch. */
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/impl/CUDAGuardImpl.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <ostream>
#include <utility>

namespace {
constexpr int pool_size = 32;
thread_local cudaStream_t current = nullptr;

c10::cuda::CUDAStream wrap(cudaStream_t stream) { /* the id of a stream is its handle */
    c10::Device device(c10::DeviceType::CUDA, 0);
    auto id = static_cast<c10::StreamId>(reinterpret_cast<intptr_t>(stream));
    return c10::cuda::CUDAStream(c10::cuda::CUDAStream::UNCHECKED, c10::Stream(c10::Stream::UNSAFE, device, id));
}

c10::cuda::CUDAStream take_from_pool(bool is_high) {
    static std::mutex mutex;
    static cudaStream_t streams[2][pool_size];
    static int next[2];
    std::lock_guard<std::mutex> guard(mutex);
    cudaStream_t &stream = streams[is_high][next[is_high]++ % pool_size];
    if (!stream) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return wrap(stream);
}

void check_device(c10::DeviceIndex device) {
    TORCH_CHECK(device == 0 || device == -1, "wsemu has one device, cuda:0, and not cuda:", static_cast<int>(device));
}

/* CUDACachingAllocator is an interface of many functions that differ between versions of torch: each one raises. */
[[noreturn]] void reject_allocator() {
    TORCH_CHECK(false, "wsemu has no c10::cuda::CUDACachingAllocator: allocate with at::empty or cudaMalloc");
}
struct Rejections {
    void *functions[128];
    Rejections() { for (void *&one : functions) one = reinterpret_cast<void *>(reject_allocator); }
} rejections;
struct { void **functions; } rejecting{rejections.functions};
} // namespace

namespace c10::cuda {
DeviceIndex device_count() noexcept { return 1; }
DeviceIndex device_count_ensure_non_zero() { return 1; }
DeviceIndex current_device() { return 0; }
void set_device(DeviceIndex device, const bool) { check_device(device); }
void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
void warn_or_error_on_sync() {}
cudaError_t GetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t GetDevice(DeviceIndex *device) { return *device = 0, cudaSuccess; }
cudaError_t SetDevice(DeviceIndex device, const bool) { return check_device(device), cudaSuccess; }
cudaError_t MaybeSetDevice(DeviceIndex device) { return check_device(device), cudaSuccess; }
DeviceIndex ExchangeDevice(DeviceIndex device) { return check_device(device), 0; }
DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return check_device(device), 0; }
void SetTargetDevice() {}
bool hasPrimaryContext(DeviceIndex) { return true; }
std::optional<DeviceIndex> getDeviceIndexWithPrimaryContext() { return 0; }

cudaStream_t CUDAStream::stream() const { return reinterpret_cast<cudaStream_t>(static_cast<intptr_t>(id())); }
void CUDAStream::synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream())); }
bool CUDAStream::query() const {
    cudaError_t result = cudaStreamQuery(stream());
    if (result != cudaErrorNotReady) C10_CUDA_CHECK(result);
    return result == cudaSuccess;
}
CUDAStream getStreamFromPool(const bool is_high, DeviceIndex) { return take_from_pool(is_high); }
CUDAStream getStreamFromPool(const int priority, DeviceIndex) { return take_from_pool(priority < 0); }
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return wrap(stream); }
CUDAStream getDefaultCUDAStream(DeviceIndex) { return wrap(nullptr); }
CUDAStream getCurrentCUDAStream(DeviceIndex) { return wrap(current); }
void setCurrentCUDAStream(CUDAStream stream) { current = stream.stream(); }
std::ostream &operator<<(std::ostream &out, const CUDAStream &stream) { return out << stream.unwrap(); }

void c10_cuda_check_implementation(const int32_t error, const char *, const char *, const uint32_t, const bool) {
    auto code = static_cast<cudaError_t>(error);
    if (C10_LIKELY(code == cudaSuccess)) return;
    cudaGetLastError();
    TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(code));
}
C10_EXPORT void c10_cuda_check_implementation( /* the interface of older versions of torch */
    const int32_t error, const char *file, const char *function, const int line, const bool assertions) {
    c10_cuda_check_implementation(error, file, function, static_cast<uint32_t>(line), assertions);
}
std::string get_cuda_error_help(cudaError_t) noexcept { return ""; }
const char *get_cuda_check_suffix() noexcept { return ""; }
const char *get_cuda_async_error_suffix(cudaError_t) noexcept { return ""; }
std::mutex *getFreeMutex() { static std::mutex mutex; return &mutex; }

namespace CUDACachingAllocator {
std::atomic<CUDAAllocator *> allocator{reinterpret_cast<CUDAAllocator *>(&rejecting)};
}
namespace impl {
C10_REGISTER_GUARD_IMPL(CUDA, CUDAGuardImpl)
}
} // namespace c10::cuda

namespace at::cuda { /* of ATen/cuda/CUDAContextLight.h, which includes headers of many libraries */
C10_EXPORT cudaDeviceProp *getDeviceProperties(c10::DeviceIndex device) {
    static std::once_flag once;
    static cudaDeviceProp properties;
    check_device(device);
    std::call_once(once, [] { C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0)); });
    return &properties;
}
C10_EXPORT cudaDeviceProp *getCurrentDeviceProperties() { return getDeviceProperties(0); }
C10_EXPORT int warp_size() { return 32; }
C10_EXPORT bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) { return false; }

/* Handles of libraries whose kernels are machine code: extensions that name them load, and a call raises. */
#define REJECT(name, library, ...) \
    C10_EXPORT void *name(__VA_ARGS__) { TORCH_CHECK(false, "wsemu has no " library ", whose kernels are machine code"); }
REJECT(getCurrentCUDABlasHandle, "cuBLAS", bool)
REJECT(getCurrentCUDABlasLtHandle, "cuBLASLt")
REJECT(getCurrentCUDASparseHandle, "cuSPARSE")
REJECT(getCurrentCUDASolverDnHandle, "cuSOLVER")
} // namespace at::cuda

extern "C" C10_EXPORT void wsemu_set_current_stream(cudaStream_t stream) { current = stream; }
