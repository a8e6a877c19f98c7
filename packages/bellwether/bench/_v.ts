import pg from 'pg'
const c = new pg.Client('postgres://postgres@127.0.0.1:15499/b')
await c.connect()
let n = 0
const item = () =>
  JSON.stringify([
    {
      inbox_id: 'i' + ++n,
      agent_turn_id: 't' + n,
      project_id: 'p',
      agent_id: 'a' + (n % 500),
      traceparent: '00-1-2-01',
      payload: {},
    },
  ])
async function time(name: string, f: () => Promise<unknown>, k = 400) {
  const v: number[] = []
  for (let i = 0; i < k; i++) {
    await c.query('begin')
    const s = performance.now()
    await f()
    v.push(performance.now() - s)
    await c.query('rollback')
  }
  v.sort((a, b) => a - b)
  console.log(name, v[k >> 1]!.toFixed(3))
}
await time('select1', () => c.query({ name: 's', text: 'select 1' }))
await time('enqueue', () => c.query({ name: 'e', text: 'select * from state.enqueue($1::json)', values: [item()] }))
await c.query('alter function state.enqueue(json) reset all')
await time('enqueue no set', () =>
  c.query({ name: 'e', text: 'select * from state.enqueue($1::json)', values: [item()] }),
)
await c.query('begin')
await c.query('select * from state.enqueue($1::json)', [item()])
await c.query('commit')
await time('claim', () => c.query({ name: 'c', text: "select * from state.claim('w','x',10,30)" }))
await c.query('alter function state.claim(text,text,int,double precision) reset all')
await time('claim no set', () => c.query({ name: 'c', text: "select * from state.claim('w','x',10,30)" }))
await c.query(
  'set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off; set enable_bitmapscan=off; set enable_material=off; set jit = off; set plan_cache_mode = force_generic_plan',
)
await c.query('discard plans')
await time('claim session set', () => c.query({ name: 'c', text: "select * from state.claim('w','x',10,30)" }))
await time('enqueue session set', () =>
  c.query({ name: 'e', text: 'select * from state.enqueue($1::json)', values: [item()] }),
)
await c.end()
