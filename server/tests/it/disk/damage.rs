//! Files of every kind whose bits turn, that are cut or partly zero: nobody is answered wrongly, and what is not damaged
//! is served.

use std::{fs, path::PathBuf};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    Disk,
    life::{FILES, Model, Step, matches, run, start},
};

/// Damages of a test run.
const DAMAGES: u64 = 40;

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Bit,
    Cut,
    Zeros,
}

fn files(disk: &Disk, pattern: &str) -> Vec<PathBuf> {
    let mut folders = vec![disk.root()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if matches(pattern.as_bytes(), path.to_str().unwrap().as_bytes()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn damaged(bytes: &[u8], damage: Damage, chance: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = chance.random_range(0..bytes.len());
    match damage {
        Damage::Bit => bytes[at] ^= 1 << chance.random_range(0..8),
        Damage::Cut => bytes.truncate(at),
        Damage::Zeros => {
            let end = bytes.len().min(at + 64);
            bytes[at..end].fill(0);
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn no_damaged_file_makes_an_answer_wrong() {
    let disk = Disk::new();
    let (server, client) = start(&disk).await.unwrap();
    let mut steps = vec![Step::Create("t"), Step::Create("u")];
    steps.extend((0..36).map(Step::Write));
    steps.extend([Step::Delete(3), Step::Replace(4), Step::Later(5), Step::Write(40), Step::Delete(5)]);
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        run(&client, &disk, &model, number, step).await.unwrap();
        model = model.after(step);
    }
    drop(server);

    let damages = std::env::var("BASALT_DAMAGES").map_or(DAMAGES, |n| n.parse().unwrap());
    let kinds: Vec<&str> =
        FILES.into_iter().map(|(_, p)| p).filter(|p| !files(&disk, p).is_empty()).collect();
    let (mut wrong, mut noticed) = (Vec::new(), 0);
    for number in 0..damages {
        let mut chance = StdRng::seed_from_u64(number);
        let kind = kinds.choose(&mut chance).unwrap();
        let path = files(&disk, kind).choose(&mut chance).unwrap().clone();
        let damage = *[Damage::Bit, Damage::Bit, Damage::Cut, Damage::Zeros].choose(&mut chance).unwrap();
        let good = fs::read(&path).unwrap();
        if good.is_empty() {
            continue;
        }
        fs::write(&path, damaged(&good, damage, &mut chance)).unwrap();
        // That it does not start is an answer as well.
        if let Some((_server, client)) = start(&disk).await {
            match Model::found(&client).await {
                Ok(found) if found == model => {}
                Ok(found) => wrong.push(format!("{number}, {damage:?} in {}: {found:?}", path.display())),
                Err(_) => noticed += 1,
            }
        } else {
            noticed += 1;
        }
        fs::write(&path, good).unwrap();
    }
    eprintln!("{damages} damages, {noticed} were noticed, {} make answers wrong", wrong.len());
    assert!(wrong.is_empty(), "{model:?}\n{wrong:#?}");
    assert!(noticed > 0);
    let (_server, client) = start(&disk).await.unwrap();
    assert_eq!(Model::found(&client).await, Ok(model));
}
