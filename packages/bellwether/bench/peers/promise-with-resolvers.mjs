/** Restate's SDK uses Promise.withResolvers, which Node 20 lacks; import this before it. A newer Node keeps its own. */
Promise.withResolvers ??= function withResolvers() {
  let resolve
  let reject
  const promise = new this((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
