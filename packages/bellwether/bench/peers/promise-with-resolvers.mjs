/** Restate's SDK uses Promise.withResolvers, which Node 20 lacks; imported before it. Nothing else here patches globals. */
Promise.withResolvers ??= function withResolvers() {
  let resolve
  let reject
  const promise = new this((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
