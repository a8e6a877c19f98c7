/** Texts and names of the fixture data, among them what an attacker would write. */
export const attack =
  '<img src=x onerror="window.__owned=1"><script>window.__owned=1</script>"><svg onload=window.__owned=1>\u202egpj.exe'
export const longWord = 'W'.repeat(3_000)

export const turnId = (number: number) => `0198c0de-0000-7000-8000-${number.toString(16).padStart(12, '0')}`

export const jobs = ['coder', 'reviewer', 'tester', 'planner', 'researcher', 'writer', 'triage', 'deployer']

export type At = (seconds: number) => string
export type Say = (text: string) => string
