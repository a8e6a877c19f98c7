import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { subjects } from '@bellwether/protocol'
import { expect, it } from 'vitest'
import { notifyChunks } from '../../src/ports/chunks/notify.js'
import { testKernel } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { runCli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { startCollector } from './collector.js'

it('a PMO exports traces, workers and PMOs serve metrics, and a command sends live output', async ({
  onTestFinished,
}) => {
  const t = await testKernel({ time: 'real' })
  const collector = await startCollector()
  const cwd = await testFolder()
  const chunks = notifyChunks({ url: t.url, log: quietLog })
  onTestFinished(async () => {
    await chunks.close()
    await collector.close()
    await t.drop()
    await rm(cwd, { recursive: true, force: true })
  })
  await mkdir(join(cwd, 'agents'))
  const command = 'command: "echo listen; until [ -e enough ]; do sleep 0.05; done; echo done"'
  await writeFile(join(cwd, 'agents', 'talker.md'), `---\n${command}\n---\n`)
  const env = {
    BELLWETHER__DATABASE__URL: t.url,
    BELLWETHER__TELEMETRY__METRICS_PORT: '0',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  }
  const processes = [['worker', '--target', 'default'], ['pmo']].map((words) =>
    runCli([...words, '--json', '--parent-pipe'], { cwd, env }),
  )
  onTestFinished(async () => {
    for (const cli of processes.filter((one) => one.alive())) cli.signal('SIGKILL')
    await Promise.all(processes.map((cli) => cli.ended))
  })
  await Promise.all(processes.map((cli) => cli.ready()))
  const [worker, pmo] = processes.map((cli) => /"url":"(http:\S+?\/metrics)"/.exec(cli.stderr())?.[1])

  let heard = ''
  await chunks.listen(subjects.chunk({ project: '*', channel: '*' }, 'talker'), ({ text }) => (heard += text))
  const { agentTurnId } = await t.kernel.enqueue({ projectId: 'default', agentId: 'talker', instruction: 'talk' })
  await until('it is heard', async () => heard.includes('listen\n') || undefined)
  const page = async (url: string | undefined) => (await fetch(url!)).text()
  expect(await page(worker)).toContain('bellwether_worker_running{target="default"} 1')
  await writeFile(join(cwd, 'enough'), '')
  const spans = await until(
    'the trace is exported',
    async () => (collector.of(agentTurnId).length > 0 ? collector.of(agentTurnId) : undefined),
    30_000,
  )
  expect(spans.map((span) => span.name)).toEqual(
    expect.arrayContaining(['turn', 'enqueue', 'dispatch', 'step command', 'deliver']),
  )
  await until(
    'it is counted',
    async () => (await page(pmo)).includes('bellwether_turns_total{outcome="success"} 1') || undefined,
  )
  expect(await page(pmo)).toContain('bellwether_bell_connected{kind="notify"} 1')
  for (const cli of processes) cli.signal('SIGTERM')
  expect(await Promise.all(processes.map((cli) => cli.ended))).toEqual([0, 0])
})
