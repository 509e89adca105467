//! Scratch.
use toolgate_engine::*;
fn main() {
    take_over_if_asked();
    let rt = tokio::runtime::Runtime::new().unwrap();
    let _g = rt.enter();
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let choice: EngineChoice = args.remove(0).parse().unwrap();
    let engine = Engine::builder().engine(choice).build().unwrap();
    for code in args {
        let r = engine.run_blocking(Request { seed: Some(7), ..Request::new(wire::Profile::Chain, code) });
        println!("{}", serde_json::to_string(&r).unwrap());
    }
}
