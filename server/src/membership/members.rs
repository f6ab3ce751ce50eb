//! Who is in the cluster.
//!
//! Members are configured by name, found behind a DNS name, or become known by asking this node for its status. A
//! member is named by what it calls itself, so that fragments stay placed on it wherever it is reached; until it has
//! answered, a configured one by what the configuration calls it, and others are none.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use basalt_proto::cluster::v1::GetStatusResponse;
use futures_util::future::join_all;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use super::{
    callers::Callers,
    link::{Link, State},
    placement::{self, Health, Seed, TableSeed},
};
use crate::{config, environment::Environment, limits, moment::Moment, status::RequestError, tls};

/// See the module.
#[derive(Debug)]
pub(crate) struct Members {
    own: Arc<str>,
    /// Another one after each start.
    instance: u64,
    replicas: usize,
    /// How long who was only told of may be silent.
    forget: Duration,
    configured: BTreeSet<String>,
    names: Vec<String>,
    links: Mutex<BTreeMap<Arc<str>, Known>>,
    view: RwLock<Arc<View>>,
    changed: watch::Sender<()>,
    started: Moment,
    /// This node answers nothing more.
    left: AtomicBool,
    /// The configured names were never looked up.
    unresolved: AtomicBool,
    environment: Arc<dyn Environment>,
    callers: Callers,
    /// `None`: nodes show no certificates.
    tls: Option<Arc<tls::Peers>>,
}

#[derive(Debug)]
struct Known {
    link: Arc<Link>,
    source: Source,
    /// It has asked this node.
    called: bool,
    /// The only place where it is asked; `None`: wherever its name is.
    at: Option<SocketAddr>,
    /// It knows nodes that this one does not, and is not believed.
    knows_others: bool,
}

impl Known {
    /// Whether it is a node by what that calls itself.
    fn is_node(&self, name: &str) -> bool {
        self.link.status().is_some_and(|status| status.node == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Configured,
    /// Behind a name, at the last look-up.
    Found,
    /// It has asked, or another node knows it; or it was found, and is not any longer.
    Told,
}

/// The members at one time, this node among them.
#[derive(Debug)]
pub(crate) struct View {
    /// By name.
    nodes: Vec<Node>,
    seeds: Vec<Seed>,
    own: usize,
    replicas: usize,
}

/// One member.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: Arc<str>,
    /// `None`: this node.
    pub(crate) link: Option<Arc<Link>>,
}

impl Node {
    pub(crate) fn state(&self) -> State {
        self.link.as_ref().map_or(State::Alive, |link| link.state())
    }
}

impl View {
    fn new(mut nodes: Vec<Node>, replicas: usize) -> Self {
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let seeds = nodes.iter().map(|node| Seed::of(&node.name)).collect();
        let own = nodes.iter().position(|node| node.link.is_none()).unwrap_or_default();
        Self { nodes, seeds, own, replicas }
    }

    /// That of a server without a cluster.
    pub(crate) fn alone() -> Arc<Self> {
        Arc::new(Self::new(vec![Node { name: Arc::default(), link: None }], 1))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The place of this node among them.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// How many of them hold a fragment.
    pub(crate) fn replicas(&self) -> usize {
        self.replicas
    }

    /// Whether this node holds a fragment.
    pub(crate) fn holds(&self, table: u64, fragment: u32) -> bool {
        placement::holds(&self.seeds, self.own, self.replicas, table, fragment.into())
    }

    /// Whether this node does a table's background work: the first of those that live.
    pub(crate) fn owns(&self, table: u64) -> bool {
        let seeds: Vec<_> = self.seeds.iter().map(|seed| seed.of_table(table)).collect();
        let is_alive = |place: usize| self.nodes[place].state() == State::Alive;
        placement::first(&seeds, placement::TABLE, is_alive) == Some(self.own)
    }

    /// Whom to ask for the fragments of a table. `states` are those of the nodes.
    pub(crate) fn choice<'a>(&'a self, states: &'a [State], table: u64) -> Choice<'a> {
        let seeds = self.seeds.iter().map(|seed| seed.of_table(table)).collect();
        Choice { view: self, states, seeds }
    }
}

/// Whom to ask for the fragments of one table.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    view: &'a View,
    states: &'a [State],
    seeds: Vec<TableSeed>,
}

impl Choice<'_> {
    /// The place of the next node to ask for a fragment: those that hold it come first, this node before the others; then
    /// those that have to load it; and then the same again of those that are suspect. Nobody is asked who was `tried`.
    pub(crate) fn next(&self, fragment: u32, tried: impl Fn(usize) -> bool) -> Option<usize> {
        let View { own, replicas, .. } = self.view;
        placement::choose(&self.seeds, (*own, *replicas), fragment.into(), |place| match self.states[place] {
            _ if tried(place) => Health::Out,
            State::Alive => Health::Good,
            State::Suspect => Health::Doubtful,
            State::Dead | State::Incompatible | State::NotReady => Health::Out,
        })
    }
}

impl Members {
    /// `peers` are those of the configuration; nobody is asked before [`Members::watch`].
    pub(crate) fn new(
        own: &str,
        instance: u64,
        peers: &[String],
        replicas: usize,
        forget: Duration,
        environment: Arc<dyn Environment>,
        tls: Option<Arc<tls::Peers>>,
    ) -> Self {
        let (names, listed): (Vec<_>, Vec<_>) = peers.iter().partition(|peer| peer.starts_with(config::DNS));
        let names =
            names.iter().filter_map(|name| name.strip_prefix(config::DNS)).map(str::to_owned).collect();
        let configured: BTreeSet<String> = listed.into_iter().filter(|peer| *peer != own).cloned().collect();
        let view = View::new(vec![Node { name: own.into(), link: None }], replicas);
        let members = Self {
            own: own.into(),
            instance,
            replicas,
            forget,
            configured,
            names,
            links: Mutex::default(),
            view: RwLock::new(Arc::new(view)),
            changed: watch::Sender::new(()),
            started: Moment::now(&*environment),
            left: AtomicBool::new(false),
            unresolved: AtomicBool::new(true),
            callers: Callers::new(Arc::clone(&environment)),
            environment,
            tls,
        };
        members.configured.iter().for_each(|address| members.add(address, Source::Configured, None, None));
        members.refresh();
        members
    }

    pub(crate) fn own(&self) -> &Arc<str> {
        &self.own
    }

    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// The version of what this node says to others.
    pub(crate) fn protocol(&self) -> u32 {
        self.environment.protocol()
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Told when members come or go, and fragments are placed again.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// A node has asked for this one's status, from an address.
    ///
    /// # Errors
    /// It has shown no certificate, and goes by a name that is not its own.
    pub(crate) async fn called_by(&self, node: &str, from: SocketAddr) -> Result<(), RequestError> {
        if *self.own == *node || config::check_node(node).is_err() {
            return Ok(());
        }
        if !self.is_known_at(node, from.ip()) {
            let at = match &self.tls {
                Some(_) => None,
                None => Some(self.callers.place(node, from.ip()).await?),
            };
            self.links().retain(|address, known| **address != *node || known.at.is_none());
            self.add(node, Source::Told, None, at);
        }
        let mut links = self.links();
        for (_, known) in
            links.iter_mut().filter(|(address, known)| &***address == node || known.is_node(node))
        {
            known.called = true;
            known.link.called();
        }
        Ok(())
    }

    /// Whether a node is known that calls from an address; one that was believed for its address is another at another one.
    fn is_known_at(&self, node: &str, from: IpAddr) -> bool {
        let elsewhere =
            |known: &Known| known.at.is_some_and(|at| at.ip().to_canonical() != from.to_canonical());
        let is_elsewhere = self.links().get(node).is_some_and(elsewhere);
        !is_elsewhere && self.is_known(node)
    }

    fn is_known(&self, node: &str) -> bool {
        let links = self.links();
        links.contains_key(node) || links.values().any(|known| known.is_node(node))
    }

    /// The names of the nodes that have asked this one, or have answered it.
    pub(crate) fn known(&self) -> Vec<String> {
        let links = self.links();
        let names =
            links.iter().filter(|(_, known)| !self.is_own(known)).filter_map(|(address, known)| match known
                .link
                .status()
            {
                Some(status) => Some(status.node.clone()),
                None => known.called.then(|| address.to_string()),
            });
        names.collect()
    }

    /// Takes up the nodes that another one knows, before a lease of that one counts: they may acknowledge commits, and not
    /// know of this one yet. One that nobody has configured is not believed unless it has shown a certificate; those that
    /// it knows call this node, and until then no lease counts.
    fn learn(&self, of: &str, status: &GetStatusResponse) {
        let is_configured = |known: &Known| known.source != Source::Told;
        let is_believed = self.tls.is_some() || self.links().get(of).is_some_and(is_configured);
        let is_other =
            |name: &&String| ***name != *self.own && config::check_node(name).is_ok() && !self.is_known(name);
        let others: Vec<_> = status.known.iter().take(limits::NODES).filter(is_other).collect();
        if is_believed {
            others.iter().for_each(|name| self.add(name, Source::Told, None, None));
        }
        if let Some(known) = self.links().get_mut(of) {
            known.knows_others = !is_believed && !others.is_empty();
        }
    }

    /// A lease for a node that has asked for this one's status, in milliseconds. Whoever is not known to this node by
    /// its configuration gets none: after a restart nobody would know of it.
    pub(crate) fn give_lease(&self, node: &str) -> u32 {
        // Nodes behind a name that know this one have not all asked it since it began: it cannot tell of them.
        if !self.names.is_empty() && self.started.is_within(limits::INTRODUCTION, &*self.environment) {
            return 0;
        }
        let links = self.links();
        let mut configured = links.values().filter(|known| known.source != Source::Told);
        configured.find(|known| known.is_node(node)).map_or(0, |known| known.link.give())
    }

    /// A node answers nothing more.
    pub(crate) fn left(&self, node: &str) {
        self.links().values().filter(|known| known.is_node(node)).for_each(|known| known.link.left());
    }

    /// Since when this node has heard of all that other nodes have acknowledged; `None`: one of them may acknowledge
    /// what this node has not heard of.
    pub(crate) fn leased(&self) -> Option<Moment> {
        let blind = !self.names.is_empty() && self.unresolved.load(Ordering::Acquire);
        if blind || self.left.load(Ordering::Acquire) {
            return None;
        }
        let links = self.links();
        if self.callers.has_refused() || links.values().any(|known| known.knows_others) {
            return None;
        }
        let mut others = links.values().filter(|known| !self.is_own(known));
        others.try_fold(Moment::default(), |since, known| Some(since.later(known.link.leased()?)))
    }

    /// The nodes to tell of a commit. Those known by the configuration may have leases that an earlier process of this
    /// node gave before the moment that stands beside them.
    pub(crate) fn to_tell(&self) -> Vec<(Arc<Link>, Option<Moment>)> {
        let links = self.links();
        let others = links.values().filter(|known| !self.is_own(known));
        let started = |known: &Known| (known.source != Source::Told).then_some(self.started);
        others.map(|known| (Arc::clone(&known.link), started(known))).collect()
    }

    /// How long nodes that this one does not know of may answer from what they know: those behind a name, which need not
    /// be there when it is looked up. They have leases of an earlier process of this node; or of another node that has told
    /// them of this one only since that knows it.
    pub(crate) fn owed_to_unknown(&self) -> Option<Duration> {
        if self.names.is_empty() {
            return None;
        }
        let met =
            self.links().values().filter_map(|known| known.link.met()).fold(self.started, Moment::later);
        let passed = met.passed(&*self.environment);
        (limits::LEASE + limits::LEASE_DRIFT).checked_sub(passed).filter(|left| !left.is_zero())
    }

    /// Gives up the leases of this node, which answers nothing more: so that nobody waits until they are over.
    pub(crate) async fn leave(&self) {
        self.left.store(true, Ordering::Release);
        let links: Vec<_> = self.links().values().map(|known| Arc::clone(&known.link)).collect();
        let told = links.iter().filter(|link| link.state() != State::Dead).map(|link| link.leave(&self.own));
        join_all(told).await;
    }

    fn is_own(&self, known: &Known) -> bool {
        known.link.status().is_some_and(|status| status.instance == self.instance)
    }

    /// Finds the members behind names: asks each of them once.
    pub(crate) async fn find(&self) {
        if self.names.is_empty() {
            return;
        }
        self.look_up().await;
        self.ask().await;
    }

    /// Asks everyone who is not thought dead, now.
    pub(crate) async fn ask(&self) {
        let links: Vec<_> = self.links().values().map(|known| Arc::clone(&known.link)).collect();
        let asked = links.iter().filter(|link| link.state() != State::Dead).map(async |link| {
            if link.ask(&self.own, |status| self.learn(link.address(), status)).await {
                self.refresh();
            }
        });
        join_all(asked).await;
    }

    /// Asks and looks up, as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut tick = interval(limits::STATUS_INTERVAL / 4);
        let (mut asked, mut looked_up) = (JoinSet::new(), None::<Instant>);
        loop {
            tokio::select! {
                biased;
                Some(changed) = asked.join_next() => {
                    if changed.unwrap_or(false) {
                        self.refresh();
                    }
                }
                _ = tick.tick() => {
                    let now = Instant::now();
                    if !self.names.is_empty() && looked_up.is_none_or(|at| now - at >= limits::LOOKUP_INTERVAL) {
                        looked_up = Some(now);
                        let members = Arc::clone(&self);
                        asked.spawn(async move { members.look_up().await });
                    }
                    for link in self.due(now) {
                        let members = Arc::clone(&self);
                        asked.spawn(async move {
                            link.ask(&members.own, |status| members.learn(link.address(), status)).await
                        });
                    }
                    if self.forget() {
                        self.refresh();
                    }
                }
            }
        }
    }

    fn due(&self, now: Instant) -> Vec<Arc<Link>> {
        if self.left.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.links().values().map(|known| Arc::clone(&known.link)).filter(|link| link.is_due(now)).collect()
    }

    /// Takes up the addresses of the configured names. A failing look-up changes nothing. Whether there are new ones.
    async fn look_up(&self) -> bool {
        let mut found = BTreeMap::new();
        for name in &self.names {
            match timeout(limits::LOOKUP_INTERVAL, self.environment.lookup(name)).await {
                Ok(Ok(addresses)) => {
                    found.extend(addresses.iter().map(|address| (address.to_string(), name)))
                }
                Ok(Err(error)) => {
                    tracing::warn!(name, %error, "cannot look up the nodes");
                    return false;
                }
                Err(_) => return false,
            }
        }
        self.unresolved.store(false, Ordering::Release);
        for known in self.links().values_mut().filter(|known| known.source == Source::Found) {
            if !found.contains_key(&**known.link.address()) {
                known.source = Source::Told;
            }
        }
        found.iter().for_each(|(address, name)| self.add(address, Source::Found, Some(name), None));
        false
    }

    /// `name`: by which it was found. `at`: the only place where it is asked.
    fn add(&self, address: &str, source: Source, name: Option<&str>, at: Option<SocketAddr>) {
        let mut links = self.links();
        if let Some(known) = links.get_mut(address) {
            if known.source == Source::Told {
                known.source = source;
            }
            return;
        }
        if links.len() >= limits::NODES {
            self.callers.has_no_place();
            tracing::warn!(address, "there are {} nodes, the most", limits::NODES);
            return;
        }
        let tls = self.tls.as_ref().map(|tls| tls.towards(name));
        match Link::new(address, at, Arc::clone(&self.environment), tls) {
            Ok(link) => {
                let known = Known { link: Arc::new(link), source, called: false, at, knows_others: false };
                links.insert(address.into(), known);
            }
            Err(error) => tracing::warn!(address, %error, "no address of a node"),
        }
    }

    /// Drops who was only told of, and is silent for long; at once, where it never answered. Whether that changes
    /// the members.
    fn forget(&self) -> bool {
        let mut links = self.links();
        let before = links.len();
        links.retain(|_, Known { link, source, .. }| {
            let patience = if link.status().is_some() { self.forget } else { limits::UNHEARD };
            *source != Source::Told || link.silence() < patience
        });
        links.len() != before
    }

    /// Makes the view again.
    fn refresh(&self) {
        // Before the links are looked at: of two at once the later one has what the other one saw.
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let mut nodes = BTreeMap::from([(Arc::clone(&self.own), None::<Arc<Link>>)]);
        for (address, known) in &*self.links() {
            let name: Arc<str> = match known.link.status() {
                Some(status) if status.instance == self.instance => continue,
                Some(status) if config::check_node(&status.node).is_ok() => status.node.as_str().into(),
                None if known.source == Source::Configured => Arc::clone(address),
                _ => continue,
            };
            if name == self.own {
                tracing::error!(node = %name, %address, "another node has this one's name (advertise)");
                continue;
            }
            // Reached in two ways: the one that answered last.
            let quieter = |other: &Option<Arc<Link>>| {
                other.as_ref().is_none_or(|other| other.silence() > known.link.silence())
            };
            if nodes.get(&name).is_none_or(quieter) {
                nodes.insert(name, Some(Arc::clone(&known.link)));
            }
        }
        let nodes = nodes.into_iter().map(|(name, link)| Node { name, link }).collect();
        let new = View::new(nodes, self.replicas);
        let placed_again = new.seeds != view.seeds;
        *view = Arc::new(new);
        drop(view);
        if placed_again {
            self.changed.send_replace(());
        }
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Known>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::process;

    impl View {
        /// Nodes `node0:7701` and so on, of which the first is this one.
        pub(crate) fn of_names(nodes: usize, replicas: usize) -> Self {
            let node = |n: usize| {
                let name = format!("node{n}:7701");
                let link = (n > 0).then(|| Arc::new(Link::new(&name, None, process(), None).unwrap()));
                Node { name: name.into(), link }
            };
            Self::new((0..nodes).map(node).collect(), replicas)
        }
    }

    #[tokio::test]
    async fn candidates_are_holders_then_others_and_the_doubtful_last() {
        use State::{Alive, Dead, Incompatible, NotReady, Suspect};
        let view = View::of_names(5, 2);
        let candidates = |states: &[State], fragment| {
            let (choice, mut asked) = (view.choice(states, 3), Vec::new());
            while let Some(place) = choice.next(fragment, |place| asked.contains(&place)) {
                asked.push(place);
            }
            asked
        };
        for fragment in 0..200 {
            let all = candidates(&[Alive; 5], fragment);
            assert_eq!(all.len(), 5);
            let holders = &all[..2];
            assert_eq!(view.holds(3, fragment), holders.contains(&0));
            assert!(!holders.contains(&0) || all[0] == 0, "this node is asked first for what it holds");
            let states = [Alive, Suspect, Dead, Incompatible, NotReady];
            let expected: &[usize] = &[0, 1];
            assert_eq!(candidates(&states, fragment), expected);
        }
    }

    #[tokio::test]
    async fn who_has_left_has_heard_of_nothing() {
        let environment = crate::environment::process();
        let members = Members::new("a:1", 7, &[], 2, limits::FORGET_NODE, environment, None);
        assert!(members.leased().is_some(), "it is alone");
        members.leave().await;
        assert!(members.leased().is_none(), "others wait for it no longer");
        assert!(members.due(Instant::now()).is_empty(), "it asks for no lease");
    }

    #[tokio::test]
    async fn whom_another_node_knows_is_known() {
        let members = Members::new(
            "a:1",
            7,
            &["dns:d:1".to_owned()],
            2,
            limits::FORGET_NODE,
            crate::environment::process(),
            None,
        );
        assert!(members.leased().is_none(), "nobody was looked up yet");
        members.unresolved.store(false, Ordering::Release);
        assert!(members.leased().is_some(), "it is alone");
        assert_eq!(members.give_lease("b:1"), 0);
        let known = ["a:1", "c:1", "no name"].map(str::to_owned).to_vec();
        let status = GetStatusResponse { known, ..Default::default() };
        members.add("10.0.0.4:1", Source::Found, Some("d:1"), None);
        members.learn("10.0.0.4:1", &status);
        assert!(members.links().keys().map(|name| &**name).eq(["10.0.0.4:1", "c:1"]));
        assert!(members.leased().is_none(), "it may acknowledge what this node has not heard of");
        // Of hearsay others are not told: who is gone would never be forgotten.
        assert!(members.known().is_empty());
        let from = "10.0.0.2:99".parse().unwrap();
        members.called_by("10.0.0.2:1", from).await.unwrap();
        assert_eq!(members.known(), ["10.0.0.2:1"]);
        // Nodes that know this one only since now may have told others of it only since then.
        assert!(members.owed_to_unknown().is_some_and(|owed| owed > limits::LEASE - Duration::from_secs(1)));
    }

    /// Whoever calls chooses neither by its own name nor by those that it says it knows whom this node connects to.
    #[tokio::test]
    async fn callers_are_asked_where_they_are_and_not_believed() {
        let members = Members::new("a:1", 7, &[], 2, limits::FORGET_NODE, process(), None);
        let from = |text: &str| text.parse().unwrap();
        let error = members.called_by("169.254.169.254:80", from("10.0.0.2:99")).await.unwrap_err();
        assert_eq!(error.reason(), "PERMISSION_DENIED");
        assert!(members.links().is_empty());
        assert!(members.leased().is_none(), "it may be a node nevertheless");

        let members = Members::new("a:1", 7, &[], 2, limits::FORGET_NODE, process(), None);
        members.called_by("localhost:1", from("127.0.0.1:99")).await.unwrap();
        let at = |members: &Members| members.links()["localhost:1"].at;
        assert_eq!(at(&members), Some(from("127.0.0.1:1")));
        // The name of a node that has called is no other's.
        let stolen = members.called_by("localhost:1", from("10.0.0.9:99")).await;
        assert_eq!(stolen.unwrap_err().reason(), "PERMISSION_DENIED");
        assert_eq!(at(&members), Some(from("127.0.0.1:1")));
        let known = vec!["internal:80".to_owned()];
        members.learn("localhost:1", &GetStatusResponse { known, ..Default::default() });
        assert_eq!(members.links().len(), 1);
        assert!(members.links()["localhost:1"].knows_others);
        members.learn("localhost:1", &GetStatusResponse::default());
        assert!(!members.links()["localhost:1"].knows_others);
    }

    #[tokio::test]
    async fn a_node_for_which_there_is_no_room_may_acknowledge_what_is_not_heard_of() {
        let members = Members::new("a:1", 7, &[], 2, limits::FORGET_NODE, process(), None);
        for n in 0..limits::NODES {
            members.add(&format!("n{n}:1"), Source::Found, None, None);
        }
        assert!(!members.callers.has_refused());
        members.add("n0:1", Source::Found, None, None);
        assert!(!members.callers.has_refused(), "it has its place");
        members.add("more:1", Source::Found, None, None);
        assert!(members.callers.has_refused());
        assert_eq!(members.links().len(), limits::NODES);
    }

    #[tokio::test]
    async fn members_are_those_of_the_configuration_and_the_name_is_their_own() {
        let peers = ["a:1", "b:1", "c:1", "dns:d:1"].map(str::to_owned);
        let members = Members::new("b:1", 7, &peers, 2, limits::FORGET_NODE, process(), None);
        let names = |members: &Members| {
            members.view().nodes().iter().map(|node| node.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&members), ["a:1", "b:1", "c:1"]);
        assert_eq!(members.view().own(), 1);
        // Who asks is no member before it has answered; who asks by nonsense, or by this name, is none at all.
        for name in ["10.0.0.5:1", "b:1", "no name"] {
            members.called_by(name, "10.0.0.5:99".parse().unwrap()).await.unwrap();
        }
        assert_eq!(names(&members), ["a:1", "b:1", "c:1"]);
        assert_eq!(members.links().len(), 3);
    }
}
