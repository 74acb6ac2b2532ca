//! Tries inputs on a target, without libFuzzer.
fn main() {
    let mut arguments = std::env::args().skip(1);
    let target = divvy_fuzz::Target::find(&arguments.next().unwrap()).unwrap();
    for path in arguments {
        let bytes = std::fs::read(&path).unwrap();
        let begin = std::time::Instant::now();
        target.run(&bytes);
        println!("{path}: {} bytes, {:?}", bytes.len(), begin.elapsed());
    }
}
