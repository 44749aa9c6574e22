//! A Redis server of one thread and no network, in virtual time, that runs the shipped scripts.
//!
//! It knows only what the scripts need, and what a server may refuse: writes when memory is full,
//! all writes on a replica. Time moves only when it is told to.

// Part of tests: panics when it is asked for what it is not made for.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::disallowed_methods
)]

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use mlua::{Function, Lua, MultiValue, Value as LuaValue};

pub use self::{
    broken::Breakage,
    stage::{Setup, Shore},
    turns::Turn,
};

mod broken;
mod commands;
mod connection;
mod host;
mod mishap;
mod resp;
mod stage;
mod talk;
mod turns;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums)] // tests look into them
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A text of any bytes.
    Bulk(Vec<u8>),
    /// A word that says how it went.
    Status(&'static str),
    /// Several of these.
    Array(Vec<Self>),
    /// What went wrong, with the code first.
    Error(String),
}

/// What a key holds. Scores are whole numbers here.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums)] // tests look into them
pub enum Data {
    /// A string.
    Text(Vec<u8>),
    /// Fields and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members and their scores.
    Sorted(HashMap<Vec<u8>, i64>),
}

/// What the server keeps, and how it is disposed.
#[derive(Debug, Default)]
pub struct Store {
    /// Its clock, in microseconds since 1970.
    pub now_us: u64,
    keys: HashMap<Vec<u8>, (Data, Option<u64>)>,
    /// Channels that count as subscribed to.
    pub subscribed: HashSet<Vec<u8>>,
    /// What was published, with how many received it.
    pub published: Vec<(Vec<u8>, Vec<u8>, i64)>,
    /// Memory is full.
    pub full: bool,
    /// It became a replica.
    pub replica: bool,
    /// The running script has written: what is refused at first is allowed from then on.
    dirty: bool,
}

impl Store {
    /// Its clock, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// What `key` holds and when it ends, unless it has ended: a key lives through its last
    /// millisecond.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&(Data, Option<u64>)> {
        let found = self.keys.get(key)?;
        found
            .1
            .is_none_or(|end| self.now_ms() <= end)
            .then_some(found)
    }

    /// The string `key`.
    #[must_use]
    pub fn text(&self, key: &[u8]) -> Option<&[u8]> {
        match self.get(key) {
            Some((Data::Text(text), _)) => Some(text),
            _ => None,
        }
    }

    /// The members of a sorted set, by score and then by text.
    #[must_use]
    pub fn sorted(&self, key: &[u8]) -> Vec<(Vec<u8>, i64)> {
        let Some((Data::Sorted(members), _)) = self.get(key) else {
            return Vec::new();
        };
        let mut members: Vec<_> = members
            .iter()
            .map(|(it, score)| (it.clone(), *score))
            .collect();
        members.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        members
    }

    /// The fields of the hash `key`.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        match self.get(key) {
            Some((Data::Hash(fields), _)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Writes `key`, which ends at `end` in milliseconds.
    pub fn put(&mut self, key: &[u8], data: Data, end: Option<u64>) {
        self.keys.insert(key.to_vec(), (data, end));
    }

    /// Deletes `key`; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.get(key).is_some();
        self.keys.remove(key);
        there
    }

    /// All keys.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let live = self.keys.keys().filter(|key| self.get(key).is_some());
        live.map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }
}

/// The server.
pub struct Server {
    lua: Lua,
    store: Arc<Mutex<Store>>,
    loaded: HashMap<String, Function>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.store()).finish()
    }
}

impl Server {
    /// A server that keeps nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let lua = Lua::new();
        let store = Arc::new(Mutex::new(Store {
            // Some day in 2026.
            now_us: 1_780_000_000_000_000,
            ..Store::default()
        }));
        let redis = lua.create_table().unwrap();
        for (verb, raises) in [("call", true), ("pcall", false)] {
            let store = Arc::clone(&store);
            let run = move |lua: &Lua, words: MultiValue| {
                let words = words.iter().map(word).collect::<mlua::Result<Vec<_>>>()?;
                let reply = store.lock().unwrap().run(&words);
                match reply {
                    Reply::Error(text) if raises => Err(mlua::Error::RuntimeError(text)),
                    reply => to_lua(lua, &reply),
                }
            };
            redis.set(verb, lua.create_function(run).unwrap()).unwrap();
        }
        let error = |lua: &Lua, text: String| to_lua(lua, &Reply::Error(text));
        redis
            .set("error_reply", lua.create_function(error).unwrap())
            .unwrap();
        lua.globals().set("redis", redis).unwrap();
        Self {
            lua,
            store,
            loaded: HashMap::new(),
        }
    }

    /// What it keeps.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Forgets everything but how to run scripts.
    pub fn forget(&mut self) {
        *self.store() = Store::default();
    }

    /// Whether it is full, and whether it is a replica.
    #[must_use]
    pub fn refuses(&self) -> (bool, bool) {
        let store = self.store();
        (store.full, store.replica)
    }

    /// It has memory again, and is a primary.
    pub fn serve_all(&self) {
        let mut store = self.store();
        (store.full, store.replica) = (false, false);
    }

    /// Runs the script `text`, in one step.
    pub fn eval(&mut self, text: &str, keys: &[String], words: &[String]) -> Reply {
        let function = self.compile(text);
        self.call(&function, keys, words)
    }

    /// The script `text`, ready to be called any number of times.
    pub fn compile(&mut self, text: &str) -> Function {
        if let Some(function) = self.loaded.get(text) {
            return function.clone();
        }
        let function = self.lua.load(text).into_function().unwrap();
        self.loaded.insert(text.into(), function.clone());
        function
    }

    /// Runs a script, in one step.
    pub fn call(
        &mut self,
        function: &Function,
        keys: &[impl AsRef<[u8]>],
        words: &[impl AsRef<[u8]>],
    ) -> Reply {
        let globals = self.lua.globals();
        let texts = |words: Vec<&[u8]>| {
            let texts = words.iter().map(|word| self.lua.create_string(word));
            texts.collect::<mlua::Result<Vec<_>>>().unwrap()
        };
        let keys = texts(keys.iter().map(AsRef::as_ref).collect());
        let words = texts(words.iter().map(AsRef::as_ref).collect());
        globals.set("KEYS", keys).unwrap();
        globals.set("ARGV", words).unwrap();
        self.store().dirty = false;
        match function.call::<LuaValue>(()) {
            Ok(value) => from_lua(&value),
            Err(mlua::Error::CallbackError { cause, .. }) => Reply::Error(cause.to_string()),
            Err(error) => Reply::Error(error.to_string()),
        }
    }
}

/// What Lua gives a command, as Redis takes it: numbers in their shortest form.
fn word(value: &LuaValue) -> mlua::Result<Vec<u8>> {
    match value {
        LuaValue::String(text) => Ok(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Ok(number.to_string().into_bytes()),
        #[allow(clippy::cast_possible_truncation)]
        LuaValue::Number(number) if number.fract() == 0.0 && number.abs() < 1e14 => {
            Ok((*number as i64).to_string().into_bytes())
        }
        other => Err(mlua::Error::RuntimeError(format!(
            "a command takes no {other:?}"
        ))),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<LuaValue> {
    Ok(match reply {
        Reply::Nil => LuaValue::Boolean(false),
        #[allow(clippy::cast_precision_loss)]
        Reply::Int(number) => LuaValue::Number(*number as f64),
        Reply::Bulk(text) => LuaValue::String(lua.create_string(text)?),
        Reply::Status(text) => {
            let table = lua.create_table()?;
            table.set("ok", *text)?;
            LuaValue::Table(table)
        }
        Reply::Error(text) => {
            let table = lua.create_table()?;
            table.set("err", text.as_str())?;
            LuaValue::Table(table)
        }
        Reply::Array(items) => {
            let table = lua.create_table()?;
            for item in items {
                table.push(to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

fn from_lua(value: &LuaValue) -> Reply {
    match value {
        LuaValue::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Reply::Int(*number),
        #[allow(clippy::cast_possible_truncation)]
        LuaValue::Number(number) => Reply::Int(*number as i64),
        LuaValue::Boolean(true) => Reply::Int(1),
        LuaValue::Table(table) => {
            if let Ok(Some(text)) = table.get::<Option<String>>("err") {
                return Reply::Error(text);
            }
            Reply::Array(
                table
                    .sequence_values()
                    .map(|item| from_lua(&item.unwrap()))
                    .collect(),
            )
        }
        _ => Reply::Nil,
    }
}
