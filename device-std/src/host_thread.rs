//! [`HostThread`]: holds what a simulated launch lends to its kernel to the thread of the host that
//! runs the launch.
//!
//! On the host an output is `Sync`, because the closure of a phase may capture it. A kernel's body
//! could therefore give it to another thread of the host, which runs a launch of another simulated
//! device. That launch has indices of its own. Two launches on two threads would then open one
//! element at once. So an element opens on one thread of the host only. On a GPU no kernel starts
//! another one, and this type is empty.

/// The thread of the host that made a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostThread {
    /// The address of a variable that each thread has for itself. A later thread can have the same
    /// address, but the values that hold it end with their launch.
    #[cfg(not(target_arch = "nvptx64"))]
    mark: usize,
}

#[cfg(target_arch = "nvptx64")]
impl HostThread {
    #[inline(always)]
    pub(crate) fn current() -> Self {
        Self {}
    }

    #[inline(always)]
    pub(crate) fn check(self) {}
}

#[cfg(not(target_arch = "nvptx64"))]
impl HostThread {
    #[inline(always)]
    pub(crate) fn current() -> Self {
        std::thread_local! {
            static MARK: u8 = const { 0 };
        }
        Self {
            mark: MARK.with(|mark| core::ptr::from_ref(mark).addr()),
        }
    }

    /// # Panics
    /// If another thread of the host made the value.
    #[inline(always)]
    pub(crate) fn check(self) {
        if self.mark != Self::current().mark {
            refuse();
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
#[cold]
#[inline(never)]
#[track_caller]
fn refuse() -> ! {
    panic!("H32: a kernel's output is used on another thread of the host than the one that runs its launch");
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use std::thread;

    use super::HostThread;
    use crate::rt::{SimulatedLaunch, each_index1};
    use crate::{Extent, PerThread, PerThreadChunk, PerThreadColumn, PerThreadTile};

    #[test]
    fn a_value_is_held_to_its_thread() {
        let here = HostThread::current();
        here.check();
        let refused = thread::scope(|scope| scope.spawn(|| here.check()).join().is_err());
        assert!(refused);
    }

    /// The index of a launch on another thread opens no element of this thread's launch.
    #[test]
    fn no_other_thread_opens_an_output() {
        let mut memory = [0_u32; 8];
        let ptr = memory.as_mut_ptr();
        // SAFETY: PER-THREAD-1: the outputs use the memory one after the other.
        let each = unsafe { PerThread::new(ptr, 8) };
        // SAFETY: as above.
        let column = unsafe { PerThreadColumn::<u32, 2>::new(ptr, 8) };
        // SAFETY: as above.
        let chunk = unsafe { PerThreadChunk::<u32, 2>::new(ptr, 8) };
        // SAFETY: as above.
        let tile = unsafe { PerThreadTile::<u32, 2, 1>::new(ptr, 8) };
        let refused = |use_it: &(dyn Fn() + Sync)| {
            let said = thread::scope(|scope| scope.spawn(use_it).join()).expect_err("refused");
            let said = said.downcast_ref::<&str>().expect("a message");
            assert!(said.starts_with("H32: a kernel's output"), "{said}");
        };
        // SAFETY: the positions are used only for outputs of this test, which refuse them.
        let line = || unsafe { SimulatedLaunch::new(Extent { x: 1, y: 1, z: 1 }, [1; 3]) };
        refused(&|| each_index1(&line(), |i| each.set(i, 1)));
        refused(&|| each_index1(&line(), |i| _ = each.get(i)));
        refused(&|| each_index1(&line(), |i| chunk.set(i, [1; 2])));
        refused(&|| each_index1(&line(), |i| _ = chunk.get_or(i, 0)));
        refused(&|| crate::rt::each_index2(&line(), |i| column.set(i, 0, 1)));
        refused(&|| crate::rt::each_index2(&line(), |i| tile.set(i, [[1; 2]])));
        each_index1(&line(), |i| each.set(i, 7));
        assert_eq!(memory, [7, 0, 0, 0, 0, 0, 0, 0]);
    }
}
