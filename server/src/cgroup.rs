//! What control groups allow a process to take of the machine's memory.
//!
//! A process is in one group of each hierarchy, and every group above that one bounds it too. Version 2 has one
//! hierarchy; version 1 has one for each controller, or for several together; a machine may have both. Where they are
//! mounted, and which part of them is seen there, `/proc/self/mountinfo` says; which group is the process's,
//! `/proc/self/cgroup`. See `man 7 cgroups` and `man 5 proc_pid_mountinfo`.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// The least limit of all groups that this process is in, in bytes; `None` where there is none. `root` is the folder
/// that holds `proc` and everything that is mounted.
pub(crate) fn memory_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts = mounts.lines().filter_map(Mount::read);
    mounts.filter_map(|mount| mount.limit(root, mount.group(&groups)?)).min()
}

/// A hierarchy with a memory controller, or one that may have it.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is seen at the mount point.
    top: PathBuf,
    point: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Mount {
    /// Reads a line of `mountinfo`; `None` for what is no such hierarchy.
    fn read(line: &str) -> Option<Self> {
        // Some optional fields, of which there may be none, come before the dash.
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let version = match (system.next()?, system.nth(1)) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", Some(options)) if options.split(',').any(|o| o == "memory") => Version::One,
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3);
        Some(Self { version, top: unescaped(mount.next()?), point: unescaped(mount.next()?) })
    }

    /// The group of the process in this hierarchy, from the lines of its `cgroup`: number, controllers, group.
    fn group<'a>(&self, lines: &'a str) -> Option<&'a Path> {
        lines.lines().find_map(|line| {
            let (number, line) = line.split_once(':')?;
            let (controllers, group) = line.split_once(':')?;
            let found = match self.version {
                Version::One => controllers.split(',').any(|controller| controller == "memory"),
                Version::Two => number == "0" && controllers.is_empty(),
            };
            found.then_some(Path::new(group))
        })
    }

    /// The least limit of a group and of those above it, as far as they are seen here.
    fn limit(&self, root: &Path, group: &Path) -> Option<u64> {
        let point = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        // A namespace has a root of its own, so that what is outside of it cannot be named, or begins with "..". The
        // mount point itself is then the group, or one above it.
        let below = group.strip_prefix(&self.top).ok();
        let below = below.filter(|path| path.components().all(|part| matches!(part, Component::Normal(_))));
        let own = point.join(below.unwrap_or_else(|| Path::new("")));
        let seen = own.ancestors().take_while(|folder| folder.starts_with(&point));
        seen.filter_map(|folder| self.version.limit(folder, folder == own)).min()
    }
}

impl Version {
    /// The limit of one group, which is the process's own or above it.
    fn limit(self, group: &Path, own: bool) -> Option<u64> {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        match self {
            // Both may say "max". Beyond `memory.high` the process is slowed down until it hardly moves.
            Self::Two => number("memory.max").into_iter().chain(number("memory.high")).min(),
            // Before Linux 5.11 a group could leave those below it alone.
            Self::One if !own && number("memory.use_hierarchy") == Some(0) => None,
            // No limit is a huge number. The second is the least of all groups above, those that are not seen included.
            Self::One => {
                let all = read("memory.stat").and_then(|text| {
                    let line = text.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
                    line?.trim().parse().ok()
                });
                number("memory.limit_in_bytes").into_iter().chain(all).min()
            }
        }
    }
}

/// A path of `mountinfo`, where space, tab, line end and backslash are written as octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (escape, c)| path.replace(escape, c)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    /// What version 1 says for no limit.
    const HUGE: &str = "9223372036854771712";

    /// A machine of some files: where they are, and what they say.
    fn check(cgroup: &str, mountinfo: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        let own = [("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mountinfo)];
        for (path, text) in own.iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        assert_eq!(memory_limit(root.path()), expected, "{cgroup}");
    }

    const V2: &str = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
        34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw shared:16 master:2 - cgroup cgroup rw,memory";

    #[test]
    fn no_group_limits() {
        check("0::/", V2, &[], None);
        check("0::/a", V2, &[("sys/fs/cgroup/a/memory.max", "max")], None);
        check("", "", &[], None);
        check("0::/", "nonsense\n1 2 - 3\n - cgroup2", &[], None);
        let files = [("sys/fs/cgroup/memory/memory.limit_in_bytes", HUGE)];
        check("4:memory:/", V1, &files, Some(9_223_372_036_854_771_712));
        assert_eq!(memory_limit(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn version_2_nests() {
        let group = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope";
        let folder = "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope";
        let own = format!("{folder}/memory.max");
        let high = format!("{folder}/memory.high");
        let above = "sys/fs/cgroup/user.slice/user-1000.slice/memory.max";
        check(group, V2, &[(&own, "536870912")], Some(GIB / 2));
        check(group, V2, &[(&own, "max"), (above, "1073741824")], Some(GIB));
        check(group, V2, &[(&own, "2147483648"), (above, "1073741824")], Some(GIB));
        check(group, V2, &[(&own, "2147483648"), (&high, "1000000"), (above, "max")], Some(1_000_000));
        // That of a neighbour is none of ours.
        check(group, V2, &[("sys/fs/cgroup/system.slice/memory.max", "4096")], None);
    }

    #[test]
    fn version_2_in_a_container() {
        // The namespace begins at the container's group.
        check("0::/", V2, &[("sys/fs/cgroup/memory.max", "536870912")], Some(GIB / 2));
        // The process was moved out of the namespace that mounted it.
        check("0::/../other", V2, &[("sys/fs/cgroup/memory.max", "536870912")], Some(GIB / 2));
        // Only the container's group is mounted, and the process knows its whole name.
        let mount = "30 23 0:26 /docker/ab\\040c /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let files = [("sys/fs/cgroup/memory.max", "max"), ("sys/fs/cgroup/in/memory.max", "536870912")];
        check("0::/docker/ab c/in", mount, &files, Some(GIB / 2));
    }

    #[test]
    fn version_1_nests() {
        let group = "9:name=systemd:/x\n4:memory:/system.slice/db.service\n1:cpu,cpuacct:/";
        let folder = "sys/fs/cgroup/memory/system.slice";
        let (own, above) = (format!("{folder}/db.service/memory.limit_in_bytes"), folder.to_owned());
        let above = |file: &str| format!("{above}/{file}");
        let (limit, switch) = (above("memory.limit_in_bytes"), above("memory.use_hierarchy"));
        check(group, V1, &[(&own, "536870912")], Some(GIB / 2));
        check(group, V1, &[(&own, HUGE), (&limit, "1073741824")], Some(GIB));
        check(group, V1, &[(&own, HUGE), (&limit, "1073741824"), (&switch, "1")], Some(GIB));
        let huge = HUGE.parse().unwrap();
        check(group, V1, &[(&own, HUGE), (&limit, "1073741824"), (&switch, "0")], Some(huge));
        // What the kernel has found among the groups above, where they are not seen.
        let stat = format!("{folder}/db.service/memory.stat");
        let text = "cache 4096\nhierarchical_memory_limit 1073741824\nhierarchical_memsw_limit 1";
        check(group, V1, &[(&own, HUGE), (&stat, text)], Some(GIB));
    }

    #[test]
    fn version_1_in_a_container() {
        // The container sees its own group alone, and knows its whole name.
        let mount = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:16 - cgroup memory rw,memory";
        let files = [("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912")];
        check("4:memory:/docker/abc", mount, &files, Some(GIB / 2));
        // The same with a namespace.
        check("4:memory:/", mount, &files, Some(GIB / 2));
        // Controllers that are mounted together, and a process that is in a group of the container's.
        let mount = "35 31 0:32 / /cgroup rw - cgroup none rw,cpuset,memory";
        let files = [("cgroup/in/memory.limit_in_bytes", "536870912")];
        check("4:cpuset,memory:/in", mount, &files, Some(GIB / 2));
    }

    #[test]
    fn both_versions_at_once() {
        let mounts = format!("{V1}\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
        let group = "4:memory:/a\n0::/b";
        let one = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824");
        check(group, &mounts, &[one], Some(GIB));
        check(group, &mounts, &[one, ("sys/fs/cgroup/unified/b/memory.max", "536870912")], Some(GIB / 2));
    }
}
