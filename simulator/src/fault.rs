//! Faults on demand: which call fails next, and with which code.

use cuda_rt_driver::ErrorCode;

macro_rules! calls {
    ($($name:ident $cu:literal;)*) => {
        /// A call of [`Driver`](cuda_rt_driver::Driver), for injecting faults and for counting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Call { $(#[doc = concat!("`", $cu, "`.")] $name,)* }

        impl Call {
            /// All calls.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The `cu*` or `nccl*` call that this value stands for; one of them, if it stands for
            /// several.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $cu,)* }
            }
        }
    };
}

calls! {
    MemoryInfo "cuMemGetInfo";
    CreateStream "cuStreamCreateWithPriority";
    DestroyStream "cuStreamDestroy";
    SynchronizeStream "cuStreamSynchronize";
    QueryStream "cuStreamQuery";
    WaitEvent "cuStreamWaitEvent";
    CreateEvent "cuEventCreate";
    DestroyEvent "cuEventDestroy";
    RecordEvent "cuEventRecord";
    QueryEvent "cuEventQuery";
    SynchronizeEvent "cuEventSynchronize";
    ElapsedMs "cuEventElapsedTime";
    Alloc "cuMemAllocFromPoolAsync";
    Free "cuMemFreeAsync";
    PoolStats "cuMemPoolGetAttribute";
    SetPool "cuMemPoolSetAttribute";
    TrimPool "cuMemPoolTrimTo";
    RegisterHost "cuMemHostRegister";
    UnregisterHost "cuMemHostUnregister";
    AllocWriteCombined "cuMemHostAlloc";
    FreeWriteCombined "cuMemFreeHost";
    MappedAddress "cuMemHostGetDevicePointer";
    AllocManaged "cuMemAllocManaged";
    FreeManaged "cuMemFree";
    Prefetch "cuMemPrefetchAsync";
    Advise "cuMemAdvise";
    CopyToDevice "cuMemcpyHtoDAsync";
    CopyToHost "cuMemcpyDtoHAsync";
    Copy "cuMemcpyDtoDAsync";
    CopyRows "cuMemcpy2DAsync";
    PeerAccess "cuMemPoolSetAccess";
    CopyPeer "cuMemcpyPeerAsync";
    CommunicatorInit "ncclCommInitAll";
    Collective "ncclGroupEnd";
    CollectiveStatus "ncclCommGetAsyncError";
    Fill "cuMemsetD8Async";
    Prepare "cuModuleLoadDataEx";
    LoadModule "cuModuleLoadDataEx";
    UnloadModule "cuModuleUnload";
    ModuleFunction "cuModuleGetFunction";
    KernelAttributes "cuFuncGetAttribute";
    MaxActiveBlocks "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    SuggestBlock "cuOccupancyMaxPotentialBlockSize";
    Launch "cuLaunchKernel";
    LaunchHostFunction "cuLaunchHostFunc";
    BeginCapture "cuStreamBeginCapture";
    EndCapture "cuStreamEndCapture";
    CapturedNode "cuStreamGetCaptureInfo";
    UpdateGraph "cuGraphExecUpdate";
    SetLaunch "cuGraphExecKernelNodeSetParams";
    LaunchGraph "cuGraphLaunch";
    DestroyGraph "cuGraphExecDestroy";
}

/// Faults that were requested and have not happened yet.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

#[derive(Debug)]
struct Fault {
    call: Call,
    /// Calls until the fault happens; 1 is the next call.
    remaining: u64,
    code: ErrorCode,
}

impl Faults {
    pub(super) fn add(&mut self, call: Call, nth: u64, code: ErrorCode) {
        assert!(nth > 0, "the first call is number 1");
        self.0.push(Fault {
            call,
            remaining: nth,
            code,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call, and returns the code with which it must fail, if it must.
    pub(super) fn take(&mut self, call: Call) -> Option<ErrorCode> {
        if self.0.is_empty() {
            return None;
        }
        let mut due = None;
        for fault in self.0.iter_mut().filter(|fault| fault.call == call) {
            fault.remaining -= 1;
            if fault.remaining == 0 {
                due = Some(fault.code);
            }
        }
        self.0.retain(|fault| fault.remaining > 0);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every function of the driver API 12.8 (`cuda.h`), without the suffixes of versions, and of
    /// NCCL 2.28 (`nccl.h`).
    const ENTRY_POINTS: &str = include_str!("entry_points.txt");

    #[test]
    fn every_call_has_the_name_of_an_entry_point() {
        assert!(ENTRY_POINTS.lines().count() > 500);
        for call in Call::ALL {
            let name = call.name();
            assert!(
                ENTRY_POINTS.lines().any(|entry| entry == name),
                "there is no `{name}`"
            );
        }
    }
}
