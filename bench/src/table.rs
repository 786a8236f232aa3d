//! Contenders side by side: measured in interleaved rounds, told as medians and as times of one of them.

use serde_json::{Value, json};

/// A name, its program and the arguments of that.
pub type Contender = (&'static str, &'static str, &'static [&'static str]);

/// What is compared, and how.
pub struct Table {
    pub contenders: &'static [Contender],
    pub measures: &'static [&'static str],
    /// With whom each is compared, by its place, and what that is called.
    pub base: fn(usize) -> usize,
    pub base_name: &'static str,
}

impl Table {
    /// Measures everybody, once a round, and prints the table. The number of rounds is the first argument of the program.
    pub fn run(&self, mut measure: impl FnMut(&Contender) -> Vec<f64>) -> Vec<Value> {
        let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
        let mut results = vec![vec![Vec::new(); self.measures.len()]; self.contenders.len()];
        for _ in 0..rounds {
            for (contender, results) in self.contenders.iter().zip(&mut results) {
                for (value, values) in measure(contender).into_iter().zip(results) {
                    values.push(value);
                }
            }
        }
        print!("{:<24}", format!("median (times {})", self.base_name));
        for (name, _, _) in self.contenders {
            print!("{name:>22}");
        }
        println!();
        let mut table = Vec::new();
        for (at, measure) in self.measures.iter().enumerate() {
            print!("{measure:<24}");
            let medians: Vec<f64> = results
                .iter_mut()
                .map(|results| {
                    results[at].sort_by(f64::total_cmp);
                    results[at][rounds / 2]
                })
                .collect();
            for (number, median) in medians.iter().enumerate() {
                let base = medians[(self.base)(number)];
                print!("{:>22}", format!("{median:.2} ({:.2})", median / base));
            }
            println!();
            table.push(json!({"measure": measure, "medians": medians}));
        }
        table
    }
}

/// Keeps a table where it can be looked at later.
pub fn keep(name: &str, table: &[Value]) {
    std::fs::create_dir_all("target").ok();
    std::fs::write(format!("target/{name}.json"), serde_json::to_string_pretty(table).unwrap()).unwrap();
}
