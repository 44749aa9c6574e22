//! Nodes of ZooKeeper, by conditional writes; and operations of your own in one `multi`.
//!
//! ```no_run
//! # async fn charge(guard: &leasehold::Guard) -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::{Claim, Fence, zookeeper::Nodes};
//!
//! let client = zookeeper_client::Client::connect("10.0.0.1:2181,10.0.0.2:2181").await?;
//! let nodes = Nodes::new(client.clone(), "/fenced")?;
//! let mut claim = nodes.claim("invoices", guard).await?; // older ones are now refused
//! claim.write(b"charged").await?; // the node /fenced/invoices
//!
//! let mut multi = client.new_multi_writer();
//! let check = claim.check().await?;
//! multi.add_check_version(&check.path, check.version)?;
//! multi.add_set_data("/audit/last", b"42", None)?;
//! multi.commit().await?; // fails if another has claimed since
//! # Ok(())
//! # }
//! ```
//!
//! The mark is the first line of the node's data, `fence FENCING-TOKEN`, and the content follows;
//! ZooKeeper takes 1 MiB for both. A resource is one node: what its name has besides
//! `A-Z a-z 0-9 _ . -` becomes `%XX`.

use leasehold_core::FencingToken;
use zookeeper_client::{Acls, Client, CreateMode, Error as StoreError};

use super::{Claim, Error, Fence, Pass, Result, pass};
use crate::backend::zookeeper::Tree;

/// More races than this one after another are no accident.
const RACES: usize = 1000;

/// The nodes below one.
#[derive(Clone, Debug)]
pub struct Nodes {
    client: Client,
    tree: Tree,
    acls: Acls<'static>,
}

/// What a `multi` has to check to be fenced: that the node `path` has `version`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The node of the resource.
    pub path: String,
    /// The version it must have.
    pub version: i32,
}

impl Nodes {
    /// Fences the nodes below `root`, which are made when first claimed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when `root` is no path of ZooKeeper.
    pub fn new(client: Client, root: &str) -> Result<Self> {
        let tree = Tree::new(root).map_err(|reason| {
            let hint = "a root is a path such as /fenced";
            Error::invalid(format!("{root:?}: {reason}"), hint)
        })?;
        Ok(Self {
            client,
            tree,
            acls: Acls::anyone_all(),
        })
    }

    /// Lets only the user that `client` is logged in as touch the nodes it makes.
    #[must_use]
    pub const fn creator_only(mut self) -> Self {
        self.acls = Acls::creator_all();
        self
    }
}

impl Fence for Nodes {
    type Claim = Claimed;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed> {
        let token = pass.into().for_resource(resource)?;
        if resource.is_empty() {
            return Err(Error::invalid("a node of ZooKeeper needs a name", ""));
        }
        let claimed = Claimed {
            nodes: self.clone(),
            path: self.tree.node(resource),
            resource: resource.into(),
            token,
        };
        claimed.current().await?;
        Ok(claimed)
    }
}

/// A claimed node. Every call checks again.
#[derive(Clone, Debug)]
pub struct Claimed {
    nodes: Nodes,
    path: String,
    resource: String,
    token: FencingToken,
}

/// What a node is at one version.
struct Found {
    /// None when there is no node.
    version: Option<i32>,
    seen: Option<FencingToken>,
    content: Vec<u8>,
}

impl Claimed {
    /// What a `multi` of your own has to check. It changes with every write of the resource, so ask
    /// right before each; a `multi` that fails on it has done nothing, and asking again tells why.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when a larger fencing token has been seen, and others.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn check(&mut self) -> Result<Check> {
        let found = self.current().await?;
        Ok(Check {
            path: self.path.clone(),
            version: found.version.unwrap_or(0),
        })
    }

    /// The node as it is, with a mark that is raised to this fencing token.
    async fn current(&self) -> Result<Found> {
        for _ in 0..RACES {
            let found = self.find().await?;
            match found.seen {
                Some(seen) if seen > self.token => {
                    return Err(Error::stale(&self.resource, self.token, seen));
                }
                Some(seen) if seen == self.token => return Ok(found),
                _ => {
                    self.put(found.version, &found.content).await?;
                }
            }
        }
        Err(self.crowded())
    }

    /// Asks the server to catch up first: it need not be the one that others write at.
    async fn find(&self) -> Result<Found> {
        let client = &self.nodes.client;
        let data = async {
            client.sync(&self.path).await?;
            client.get_data(&self.path).await
        };
        match data.await {
            Ok((data, stat)) => {
                let (seen, content) = self.read(&data)?;
                Ok(Found {
                    version: Some(stat.version),
                    seen,
                    content,
                })
            }
            Err(StoreError::NoNode) => Ok(Found {
                version: None,
                seen: None,
                content: Vec::new(),
            }),
            Err(error) => Err(Error::store(error)),
        }
    }

    fn read(&self, data: &[u8]) -> Result<(Option<FencingToken>, Vec<u8>)> {
        let mut parts = data.splitn(2, |&byte| byte == b'\n');
        let first = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let seen = first.strip_prefix("fence ").map(pass::parse);
        match (seen, parts.next()) {
            (Some(Ok(seen)), Some(content)) => Ok((Some(seen), content.to_vec())),
            _ => {
                let shown: String = first.chars().take(60).collect();
                Err(Error::unreadable(&self.resource, &shown))
            }
        }
    }

    /// Writes over what had `version`; `false` if it has changed meanwhile.
    async fn put(&self, version: Option<i32>, content: &[u8]) -> Result<bool> {
        let data = [format!("fence {}\n", self.token).as_bytes(), content].concat();
        let written = match version {
            Some(_) => {
                let set = self.nodes.client.set_data(&self.path, &data, version);
                set.await.map(drop)
            }
            None => self.create(&data).await,
        };
        match written {
            Ok(()) => Ok(true),
            Err(StoreError::BadVersion | StoreError::NodeExists | StoreError::NoNode) => Ok(false),
            Err(error) => Err(Error::store(error)),
        }
    }

    async fn create(&self, data: &[u8]) -> Result<(), StoreError> {
        let options = CreateMode::Persistent.with_acls(self.nodes.acls);
        let client = &self.nodes.client;
        match client.create(&self.path, data, &options).await {
            Err(StoreError::NoNode) => {
                client.mkdir(self.nodes.tree.root(), &options).await?;
                client.create(&self.path, data, &options).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    fn crowded(&self) -> Error {
        let path = &self.path;
        Error::store(format!("node {path} has changed {RACES} times while read"))
    }
}

impl Claim for Claimed {
    async fn read(&mut self) -> Result<Vec<u8>> {
        Ok(self.current().await?.content)
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        for _ in 0..RACES {
            let found = self.current().await?;
            if self.put(found.version, content).await? {
                return Ok(());
            }
        }
        Err(self.crowded())
    }
}
