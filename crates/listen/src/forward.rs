//! Forwards the writing half of a wrapped stream.

/// Implements all methods of [`AsyncWrite`](tokio::io::AsyncWrite) except `poll_shutdown` with those of the field
/// `stream`.
macro_rules! forward_writes {
    () => {
        fn poll_write(
            self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
        }

        fn poll_write_vectored(
            self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            slices: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
        }

        fn is_write_vectored(&self) -> bool {
            self.stream.is_write_vectored()
        }

        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.get_mut().stream).poll_flush(context)
        }
    };
}

/// Implements `poll_shutdown` with that of the field `stream`.
macro_rules! forward_shutdown {
    () => {
        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
        }
    };
}

pub(crate) use {forward_shutdown, forward_writes};
