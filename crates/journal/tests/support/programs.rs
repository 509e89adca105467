//! Random programs that call, wait, race and catch.

/// Numbers that depend on a seed alone.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A program of random steps. Every write has its own number, and the program returns the numbers whose reply it got.
pub(crate) fn program(dice: &mut Dice) -> String {
    let mut code = "let n = 0; const done = []; const write = async () => { const k = n++; \
                    await db.save({ k }); done.push(k); return k; };\n"
        .to_owned();
    for _ in 0..1 + dice.below(5) {
        let times = 2 + dice.below(3);
        code.push_str(&match dice.below(9) {
            0 | 1 => "await write();\n".to_owned(),
            2 => format!("await Promise.all(Array.from({{ length: {times} }}, write));\n"),
            3 => "await Promise.race([write(), db.find({ n })]);\n".to_owned(),
            4 => "await Promise.race([write(), sleep(1)]); await write();\n".to_owned(),
            5 => "try { await db.broken({ k: 'broken' + n++ }); } catch (e) { await write(); }\n".to_owned(),
            6 => format!("for (let i = 0; i < {times}; i++) setTimeout(write, {times} - i); await sleep(8);\n"),
            7 => "if ((await db.find({ n })).found.n % 2) await write(); else console.log('even', n);\n".to_owned(),
            _ => "if (Math.random() < 0.5) { await sleep(1); await write(); }\n".to_owned(),
        });
    }
    // A race leaves writes behind: the program waits for them, so that what it returns is everything.
    code.push_str("while (done.length + failed() < n) await sleep(1); return done;");
    code.replace("failed()", "broken")
        .replacen("let n = 0;", "let n = 0, broken = 0;", 1)
        .replace("catch (e) { await write(); }", "catch (e) { broken++; await write(); }")
}
