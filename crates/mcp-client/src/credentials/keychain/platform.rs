//! The keychain of the operating system. Only this file uses its libraries.

use std::sync::Arc;

use keyring_core::{CredentialStore, Error};
use zeroize::Zeroize;

use super::DESCRIPTION;
use super::thread::Items;
use crate::credentials::{Secret, StoreError};

/// A connection to the keychain, opened by the first use.
#[derive(Default)]
pub(super) struct Platform {
    store: Option<Arc<CredentialStore>>,
}

impl Platform {
    /// Runs an operation. If the service that provides the keychain failed, for example because it was restarted, the
    /// operation is repeated once over a new connection.
    fn run<T>(
        &mut self,
        service: &str,
        name: &str,
        mut operation: impl FnMut(&keyring_core::Entry) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let mut attempt = |store: &mut Option<Arc<CredentialStore>>| {
            let opened = match store {
                Some(opened) => opened,
                None => store.insert(open()?),
            };
            operation(&opened.build(service, name, None)?)
        };
        let had_connection = self.store.is_some();
        let mut result = attempt(&mut self.store);
        if had_connection && matches!(&result, Err(error) if is_connection_failure(error)) {
            self.store = None;
            result = attempt(&mut self.store);
        }
        if matches!(&result, Err(error) if is_connection_failure(error)) {
            self.store = None;
        }
        result.map_err(store_error)
    }
}

impl Items for Platform {
    fn max_item_bytes(&self) -> Option<usize> {
        // Windows allows 2560 bytes.
        cfg!(windows).then_some(2400)
    }

    fn get(&mut self, service: &str, name: &str) -> Result<Option<Secret>, StoreError> {
        self.run(service, name, |entry| match entry.get_secret() {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(Secret::new(text))),
                Err(error) => Err(Error::BadEncoding(error.into_bytes())),
            },
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn set(&mut self, service: &str, name: &str, secret: &Secret) -> Result<(), StoreError> {
        self.run(service, name, |entry| entry.set_secret(secret.expose().as_bytes()))
    }

    fn remove(&mut self, service: &str, name: &str) -> Result<bool, StoreError> {
        self.run(service, name, |entry| match entry.delete_credential() {
            Ok(()) => Ok(true),
            Err(Error::NoEntry) => Ok(false),
            Err(error) => Err(error),
        })
    }
}

#[cfg(target_os = "macos")]
fn open() -> Result<Arc<CredentialStore>, Error> {
    Ok(apple_native_keyring_store::keychain::Store::new()?)
}

#[cfg(windows)]
fn open() -> Result<Arc<CredentialStore>, Error> {
    Ok(windows_native_keyring_store::Store::new()?)
}

#[cfg(not(any(target_os = "macos", windows)))]
fn open() -> Result<Arc<CredentialStore>, Error> {
    Ok(zbus_secret_service_keyring_store::Store::new()?)
}

fn is_connection_failure(error: &Error) -> bool {
    matches!(error, Error::PlatformFailure(_) | Error::NoDefaultStore)
}

/// Converts an error of the library. Some of its errors contain the secret, so none of them is kept or formatted as a
/// whole.
fn store_error(error: Error) -> StoreError {
    let store = DESCRIPTION.to_owned();
    match error {
        Error::NoStorageAccess(cause) => StoreError::Locked { store, cause: cause.to_string() },
        Error::PlatformFailure(cause) if is_locked(&*cause) => {
            StoreError::Locked { store, cause: "the collection of passwords is locked".to_owned() }
        }
        Error::PlatformFailure(cause) => StoreError::Unavailable { store, cause: cause.to_string() },
        Error::BadEncoding(mut bytes) => {
            bytes.zeroize();
            StoreError::Corrupt { store, cause: "the item is not text".to_owned() }
        }
        Error::BadDataFormat(mut bytes, _) => {
            bytes.zeroize();
            StoreError::Corrupt { store, cause: "the item has an unknown format".to_owned() }
        }
        Error::BadStoreFormat(_) => {
            StoreError::Corrupt { store, cause: "the keychain has an unknown format".to_owned() }
        }
        Error::Ambiguous(items) => {
            let cause = format!("{} items have the same name; remove all but one", items.len());
            StoreError::Corrupt { store, cause }
        }
        Error::TooLong(what, limit) => {
            StoreError::Unavailable { store, cause: format!("{what} is longer than {limit}") }
        }
        Error::Invalid(what, reason) => {
            StoreError::Unavailable { store, cause: format!("invalid {what}: {reason}") }
        }
        Error::NoDefaultStore => {
            StoreError::Unavailable { store, cause: "this system has no keychain".to_owned() }
        }
        Error::NotSupportedByStore(cause) => StoreError::Unavailable { store, cause },
        _ => StoreError::Unavailable { store, cause: "unknown error of the keychain library".to_owned() },
    }
}

/// Secret Service reports a locked collection as an error of the write, not of the access.
#[cfg(not(any(target_os = "macos", windows)))]
fn is_locked(mut error: &(dyn std::error::Error + 'static)) -> bool {
    loop {
        if let Some(zbus::Error::MethodError(name, ..)) = error.downcast_ref::<zbus::Error>() {
            return name.as_str() == "org.freedesktop.Secret.Error.IsLocked";
        }
        match error.source() {
            Some(source) => error = source,
            None => return false,
        }
    }
}

#[cfg(any(target_os = "macos", windows))]
fn is_locked(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}
