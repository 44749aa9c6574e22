//! Several locks at once, and what becomes of a lease while it is held.

use std::collections::BTreeSet;

use leasehold::backend::{Backend, FencingToken, Mode, Name, Renewal, Renewed};

use super::{Acquisition, NAMES, Pair};

impl Pair {
    pub(super) async fn start_all(&mut self) {
        let mut names = BTreeSet::new();
        for _ in 0..=self.dice(3) {
            names.insert(NAMES[usize::try_from(self.dice(3)).unwrap()]);
        }
        let mut taken = Vec::new();
        for name in names {
            let mut acquisition = self.new_acquisition(Name::new(name).unwrap());
            acquisition.request.wait = None;
            taken.push(acquisition);
        }
        let requests: Vec<_> = taken.iter().map(|it| it.request.clone()).collect();
        self.history.push(format!("acquire_all {requests:?}"));
        let memory = self.memory.acquire_all(&requests).await.unwrap();
        let redis = self.redis.acquire_all(&requests).await.unwrap();
        self.same(&memory.is_some(), &redis.is_some());
        let grants = memory
            .into_iter()
            .flatten()
            .zip(redis.into_iter().flatten());
        for (acquisition, (one, other)) in taken.iter_mut().zip(grants) {
            self.pair(&acquisition.request.name, one.token, other.token);
            self.same(&one.ttl, &other.ttl);
            acquisition.held = Some((acquisition.request.mode, one.token));
        }
        self.acquisitions.extend(taken);
    }

    pub(super) async fn downgrade(&mut self) {
        let Some((at, one, other)) = self.pick_lease() else {
            return;
        };
        self.history
            .push(format!("downgrade {:?} {:?}", one.name, one.owner));
        let memory = self.memory.downgrade(&one).await.unwrap();
        let redis = self.redis.downgrade(&other).await.unwrap();
        self.same(&memory, &redis);
        if let (Renewed::Renewed(_), Some((mode @ Mode::Exclusive, _))) =
            (memory, &mut self.acquisitions[at].held)
        {
            *mode = Mode::Read;
        }
    }

    pub(super) async fn annotate(&mut self) {
        let Some((_, one, other)) = self.pick_lease() else {
            return;
        };
        let note = (self.dice(3) > 0).then(|| format!("note {}; |", self.dice(100)));
        let note = note.as_deref();
        self.history
            .push(format!("annotate {:?} {:?} {note:?}", one.name, one.owner));
        let memory = self.memory.annotate(&one, note).await.unwrap();
        let redis = self.redis.annotate(&other, note).await.unwrap();
        self.same(&memory, &redis);
    }

    /// One of the last acquisitions that was granted, and a renewal of it for either side.
    fn pick_lease(&self) -> Option<(usize, Renewal, Renewal)> {
        let at = self.pick()?;
        let Acquisition { request, held, .. } = &self.acquisitions[at];
        let (mode, token) = (*held)?;
        let counterpart = *self.tokens.get(&request.name)?.get(&token)?;
        let renewal = |token: FencingToken| {
            let (name, owner) = (request.name.clone(), request.owner.clone());
            Renewal::new(name, owner, mode, token, request.ttl)
        };
        Some((at, renewal(token), renewal(counterpart)))
    }
}
