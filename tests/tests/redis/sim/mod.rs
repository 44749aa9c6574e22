//! A Redis server of one thread and no network, in virtual time, that runs the shipped scripts.
//!
//! It knows only what the scripts need, and what a server may refuse: writes when memory is full,
//! all writes on a replica. Time moves only when it is told to.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use mlua::{Function, Lua, MultiValue, Value as LuaValue};

mod commands;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Status(&'static str),
    Array(Vec<Self>),
    Error(String),
}

/// What a key holds. Scores are whole numbers here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Sorted(HashMap<Vec<u8>, i64>),
}

/// What the server keeps, and how it is disposed.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) now_us: u64,
    keys: HashMap<Vec<u8>, (Data, Option<u64>)>,
    /// Channels that count as subscribed to.
    pub(crate) subscribed: HashSet<Vec<u8>>,
    /// What was published, with how many received it.
    pub(crate) published: Vec<(Vec<u8>, Vec<u8>, i64)>,
    /// Memory is full.
    pub(crate) full: bool,
    /// It became a replica.
    pub(crate) replica: bool,
    /// The running script has written: what is refused at first is allowed from then on.
    dirty: bool,
}

impl Store {
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// What `key` holds and when it ends, unless it has ended: a key lives through its last
    /// millisecond.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&(Data, Option<u64>)> {
        let found = self.keys.get(key)?;
        found
            .1
            .is_none_or(|end| self.now_ms() <= end)
            .then_some(found)
    }

    pub(crate) fn text(&self, key: &[u8]) -> Option<&[u8]> {
        match self.get(key) {
            Some((Data::Text(text), _)) => Some(text),
            _ => None,
        }
    }

    /// The members of a sorted set, by score and then by text.
    pub(crate) fn sorted(&self, key: &[u8]) -> Vec<(Vec<u8>, i64)> {
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

    pub(crate) fn hash(&self, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        match self.get(key) {
            Some((Data::Hash(fields), _)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], data: Data, end: Option<u64>) {
        self.keys.insert(key.to_vec(), (data, end));
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.get(key).is_some();
        self.keys.remove(key);
        there
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let live = self.keys.keys().filter(|key| self.get(key).is_some());
        live.map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }
}

/// The server.
pub(crate) struct Server {
    lua: Lua,
    store: Arc<Mutex<Store>>,
    loaded: HashMap<String, Function>,
}

impl Server {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Whether it is full, and whether it is a replica.
    pub(crate) fn refuses(&self) -> (bool, bool) {
        let store = self.store();
        (store.full, store.replica)
    }

    /// It has memory again, and is a primary.
    pub(crate) fn serve_all(&self) {
        let mut store = self.store();
        (store.full, store.replica) = (false, false);
    }

    /// Runs the script `text`, in one step.
    pub(crate) fn eval(&mut self, text: &str, keys: &[String], words: &[String]) -> Reply {
        if !self.loaded.contains_key(text) {
            let function = self.lua.load(text).into_function().unwrap();
            self.loaded.insert(text.into(), function);
        }
        let globals = self.lua.globals();
        globals.set("KEYS", keys).unwrap();
        globals.set("ARGV", words).unwrap();
        self.store().dirty = false;
        match self.loaded[text].call::<LuaValue>(()) {
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
