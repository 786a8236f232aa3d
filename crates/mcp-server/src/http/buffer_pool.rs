//! Large buffers of request bodies and responses, kept for reuse.
//!
//! When a large buffer is freed, the allocator returns its memory to the operating system. The next buffer of that size
//! then costs a page fault for every 4 KiB, which takes longer than parsing or serializing the same number of bytes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The minimum capacity of a kept buffer. Smaller buffers are kept by the allocator itself.
const MIN_KEPT_BYTES: usize = 64 << 10;
/// The initial capacity of a response buffer: enough for most responses without reallocation.
const RESPONSE_CAPACITY_BYTES: usize = 512;

/// The kept buffers of a service.
#[derive(Debug)]
pub(super) struct BufferPool {
    /// The maximum total capacity of the kept buffers.
    max_kept_bytes: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// True if the pool has buffers. A service that never sees a large message therefore never takes the lock.
    has_buffers: AtomicBool,
}

impl BufferPool {
    /// Creates a pool for bodies of at most `max_body_bytes`. It keeps as much as one such body and a response of the same
    /// size.
    pub(super) fn new(max_body_bytes: usize) -> Self {
        let max_kept_bytes = max_body_bytes.saturating_mul(2);
        Self { max_kept_bytes, buffers: Mutex::default(), has_buffers: AtomicBool::new(false) }
    }

    /// Returns an empty buffer with this capacity, or up to twice as much.
    pub(super) fn take(&self, capacity: usize) -> Vec<u8> {
        if capacity >= MIN_KEPT_BYTES && self.has_buffers.load(Ordering::Relaxed) {
            let mut buffers = self.lock();
            let fits =
                |buffer: &Vec<u8>| (capacity..=capacity.saturating_mul(2)).contains(&buffer.capacity());
            if let Some(at) = buffers.iter().position(fits) {
                return self.remove(&mut buffers, at);
            }
        }
        Vec::with_capacity(capacity)
    }

    /// Returns an empty buffer for a response, whose size is not known yet.
    pub(super) fn take_for_response(&self) -> Vec<u8> {
        if self.has_buffers.load(Ordering::Relaxed) {
            let mut buffers = self.lock();
            if let Some(last) = buffers.len().checked_sub(1) {
                return self.remove(&mut buffers, last);
            }
        }
        Vec::with_capacity(RESPONSE_CAPACITY_BYTES)
    }

    /// Returns the content of a buffer as shared bytes. A large buffer returns to the pool when all of these are
    /// dropped.
    pub(super) fn share(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        if buffer.capacity() < MIN_KEPT_BYTES {
            return buffer.into();
        }
        if buffer.len() < buffer.capacity() / 2 {
            // Copied, so that a short response does not occupy a large buffer while it is sent.
            let bytes = Bytes::copy_from_slice(&buffer);
            self.put(buffer);
            return bytes;
        }
        Bytes::from_owner(PooledBuffer { buffer, pool: Arc::clone(self) })
    }

    fn remove(&self, buffers: &mut Vec<Vec<u8>>, at: usize) -> Vec<u8> {
        let buffer = buffers.swap_remove(at);
        self.has_buffers.store(!buffers.is_empty(), Ordering::Relaxed);
        buffer
    }

    fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = self.lock();
        let kept: usize = buffers.iter().map(Vec::capacity).sum();
        if buffer.capacity() >= MIN_KEPT_BYTES && kept + buffer.capacity() <= self.max_kept_bytes {
            buffers.push(buffer);
            self.has_buffers.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that returns to its pool when it is dropped.
struct PooledBuffer {
    buffer: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_KEPT_BYTES: usize = 8 << 20;

    fn new_pool() -> BufferPool {
        BufferPool::new(MAX_KEPT_BYTES / 2)
    }

    fn capacities(pool: &BufferPool) -> Vec<usize> {
        pool.lock().iter().map(Vec::capacity).collect()
    }

    fn full(capacity: usize) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(capacity);
        buffer.resize(capacity, b'x');
        buffer
    }

    #[test]
    fn large_buffer_is_reused_when_its_bytes_are_dropped() {
        let pool = Arc::new(new_pool());
        let bytes = pool.share(full(1 << 20));
        assert_eq!(capacities(&pool), [0; 0], "in use");
        let address = bytes.as_ptr();
        let rest = bytes.slice(1..);
        drop(bytes);
        assert_eq!(capacities(&pool), [0; 0], "still in use");
        drop(rest);
        let buffer = pool.take(1 << 20);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, 0));
        assert_eq!(capacities(&pool), [0; 0]);
    }

    #[test]
    fn only_a_buffer_of_about_the_wanted_size_is_taken() {
        let pool = Arc::new(new_pool());
        drop(pool.share(full(1 << 20)));
        for capacity in [(1 << 19) - 1, (1 << 20) + 1] {
            assert_eq!(pool.take(capacity).capacity(), capacity);
        }
        assert_eq!(pool.take(1 << 19).capacity(), 1 << 20);
    }

    #[test]
    fn small_buffers_are_not_kept() {
        let pool = Arc::new(new_pool());
        drop(pool.share(full(MIN_KEPT_BYTES - 1)));
        assert_eq!(capacities(&pool), [0; 0]);
        drop(pool.share(full(MIN_KEPT_BYTES)));
        assert_eq!(capacities(&pool), [MIN_KEPT_BYTES]);
    }

    #[test]
    fn kept_buffers_are_limited_in_total() {
        let pool = Arc::new(new_pool());
        let shared: Vec<Bytes> = (0..20).map(|_| pool.share(full(1 << 20))).collect();
        drop(shared);
        assert_eq!(capacities(&pool).iter().sum::<usize>(), MAX_KEPT_BYTES);
        drop(pool.share(full(MAX_KEPT_BYTES + 1)));
        assert_eq!(capacities(&pool).iter().sum::<usize>(), MAX_KEPT_BYTES);
    }

    #[test]
    fn largest_body_and_its_response_are_kept() {
        let pool = Arc::new(BufferPool::new(16 << 20));
        let (body, response) = (pool.share(full(16 << 20)), pool.share(full(16 << 20)));
        drop((body, response));
        assert_eq!(capacities(&pool), [16 << 20, 16 << 20]);
    }

    #[test]
    fn short_response_does_not_hold_a_large_buffer() {
        let pool = Arc::new(new_pool());
        drop(pool.share(full(1 << 20)));
        let mut buffer = pool.take_for_response();
        assert_eq!(buffer.capacity(), 1 << 20);
        buffer.extend_from_slice(b"short");
        let bytes = pool.share(buffer);
        assert_eq!((&bytes[..], capacities(&pool)), (&b"short"[..], vec![1 << 20]));
        assert_eq!(new_pool().take_for_response().capacity(), RESPONSE_CAPACITY_BYTES);
    }
}
