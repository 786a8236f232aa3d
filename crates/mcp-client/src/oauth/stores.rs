//! The stores of the credentials of a program.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::options::OAuthOptions;
use crate::config::rfc_config::TokenStorage;
#[cfg(feature = "keyring")]
use crate::credentials::Keychain;
use crate::credentials::{
    AutoStore, EncryptedFile, EnvStore, MemoryStore, StoreError, TokenStore, credential_folder,
};
use crate::error::{Error, Result};

/// The service name of credentials for which the program chose none.
const STANDARD_SERVICE: &str = "mcp";

/// The stores of the credentials of a program.
#[derive(Clone)]
pub(super) enum Stores {
    /// All credentials are in this store.
    One(Arc<dyn TokenStore>),
    /// Each credential may be in an environment variable of its own.
    PerVariable(Arc<PerVariable>),
}

/// A store for each environment variable, and one for logins without a variable.
pub(super) struct PerVariable {
    new: Box<dyn Fn(Option<EnvStore>) -> Arc<dyn TokenStore> + Send + Sync>,
    stores: Mutex<HashMap<Option<String>, Arc<dyn TokenStore>>>,
}

impl Stores {
    pub(super) fn auto(service: &str) -> Result<Self, StoreError> {
        let (folder, service) = (credential_folder(service)?, service.to_owned());
        Ok(Self::per_variable(move |variable| Arc::new(AutoStore::in_folder(&service, &folder, variable))))
    }

    pub(super) fn standard(storage: TokenStorage) -> Result<Self> {
        let no_folder = |error: StoreError| Error::NoToken {
            server: STANDARD_SERVICE.to_owned(),
            problem: error.to_string(),
            is_retry_safe: false,
        };
        Ok(match storage {
            TokenStorage::Auto => Self::auto(STANDARD_SERVICE).map_err(no_folder)?,
            #[cfg(feature = "keyring")]
            TokenStorage::Keychain => {
                let folder = credential_folder(STANDARD_SERVICE).map_err(no_folder)?;
                Self::One(Arc::new(Keychain::new(STANDARD_SERVICE, folder)))
            }
            #[cfg(not(feature = "keyring"))]
            TokenStorage::Keychain => return Err(Error::FeatureDisabled { feature: "keyring" }),
            TokenStorage::EncryptedFile => {
                let folder = credential_folder(STANDARD_SERVICE).map_err(no_folder)?;
                Self::One(Arc::new(EncryptedFile::new(folder)))
            }
            TokenStorage::Env => Self::per_variable(|variable| match variable {
                Some(variable) => Arc::new(variable),
                // There is nothing to read, and nothing stays after the process.
                None => Arc::new(MemoryStore::default()),
            }),
            TokenStorage::Memory => Self::One(Arc::new(MemoryStore::default())),
        })
    }

    fn per_variable(new: impl Fn(Option<EnvStore>) -> Arc<dyn TokenStore> + Send + Sync + 'static) -> Self {
        Self::PerVariable(Arc::new(PerVariable { new: Box::new(new), stores: Mutex::default() }))
    }

    /// Returns the store for the credentials of these options.
    pub(super) fn of(&self, options: &OAuthOptions) -> Arc<dyn TokenStore> {
        match self {
            Self::One(store) => Arc::clone(store),
            Self::PerVariable(shared) => {
                let variable = options.readable_variable();
                let mut stores = shared.stores.lock().unwrap_or_else(PoisonError::into_inner);
                let new = || (shared.new)(variable.as_deref().map(EnvStore::new));
                Arc::clone(stores.entry(variable.clone()).or_insert_with(new))
            }
        }
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(store) => f.write_str(&store.describe()),
            Self::PerVariable(_) => f.write_str("the store of each environment variable"),
        }
    }
}
