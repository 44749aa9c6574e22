//! A store in a forked child: refused, and the parent's session is not touched.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)] // fork

use std::{
    fs,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use leasehold::backend::{
    Attempt, Backend, ClientId, Mode, Name, Owner, Request, Ttl,
    file::{Config, File},
};
use leasehold_core::Label;
use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};
use tempfile::tempdir;

#[test]
fn a_forked_child_is_refused_and_touches_nothing() {
    let home = tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = || runtime.block_on(File::open(Config::new(home.path().join("locks.db"))));
    let store = open().unwrap();
    let owner = Owner::new(1, &ClientId::new(1), "host", 1, &Label::default());
    let name = Name::new("x").unwrap();
    let request = Request::new(name.clone(), owner.clone(), Mode::Exclusive, Ttl::DEFAULT);
    let granted = runtime.block_on(store.acquire(&request)).unwrap();
    assert!(matches!(granted, Attempt::Granted(_)));

    // SAFETY: the child makes no use of what other threads may have locked, and ends with `exec`.
    if let ForkResult::Parent { child } = unsafe { fork() }.unwrap() {
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    } else {
        in_child(store, &name, &owner);
    }
    let files = fs::read_dir(home.path().join("locks.db.d")).unwrap();
    assert_eq!(files.count(), 2);
    let other = open().unwrap();
    let status = runtime.block_on(other.inspect(&name)).unwrap();
    assert_eq!(status.holders.len(), 1);
    drop(store);
    let status = runtime.block_on(other.inspect(&name)).unwrap();
    assert!(status.is_free());
}

/// Ends with `true` if all was refused, with `false` if not.
fn in_child(store: File, name: &Name, owner: &Owner) -> ! {
    let release = now(store.release(name, owner, None)).is_some_and(|it| it.is_err());
    let look = now(store.inspect(name)).is_some_and(|it| it.is_err());
    let session = store.session().is_none();
    drop(store);
    let program = if release && look && session {
        c"true"
    } else {
        c"false"
    };
    nix::unistd::execvp(program, &[program]).unwrap();
    unreachable!("exec returns only with an error")
}

/// The answer, if it needs nobody else.
fn now<T>(answer: impl Future<Output = T>) -> Option<T> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
