// Fifty issues as a tracker lists them: the same fields, values of usual length.
const states = ["open", "closed"];
const issues = Array.from({ length: 50 }, (_, n) => ({
  number: 100 + n,
  title: `The search is slow with more than ${n * 100} entries`,
  state: states[n % 2],
  author: `user-${n % 7}`,
  comments: n % 5,
  created_at: `2026-01-${String(1 + (n % 28)).padStart(2, "0")}T12:00:00Z`,
  assignee: n % 3 ? null : `user-${n % 4}`,
  labels: n % 2 ? ["bug"] : ["feature", "later"],
}));
process.stdout.write(JSON.stringify(issues));
