/** Which component depends on which, as a tree from cause to effects. Pure; cycles are cut. */
import type { Component } from '../api/types.js'

export interface Branch {
  readonly component: Component
  readonly effects: readonly Branch[]
}

export const keyOf = (component: Component) => `${component.kind}:${component.name}`

const severity: Readonly<Record<string, number>> = { failed: 0, degraded: 1, ok: 2 }
/** Failed components first. */
export const severityOf = ({ state }: Component): number => severity[state] ?? 1

/** Roots depend on no known component; failed ones come first. */
export function cascadeOf(components: readonly Component[]): Branch[] {
  const byKey = new Map(components.map((component) => [keyOf(component), component]))
  const onTop = new Map<string, Component[]>()
  for (const component of components)
    for (const below of component.depends_on) onTop.set(below, [...(onTop.get(below) ?? []), component])
  const roots = components.filter((component) => !component.depends_on.some((key) => byKey.has(key)))
  const seen = new Set<string>()
  const branch = (component: Component): Branch => {
    seen.add(keyOf(component))
    const effects = (onTop.get(keyOf(component)) ?? []).filter((one) => !seen.has(keyOf(one)))
    return {
      component,
      effects: sorted(effects).flatMap((effect) => (seen.has(keyOf(effect)) ? [] : [branch(effect)])),
    }
  }
  const trees = sorted(roots).map(branch)
  const circular = components.filter((component) => !seen.has(keyOf(component)))
  return [...trees, ...circular.flatMap((one) => (seen.has(keyOf(one)) ? [] : [branch(one)]))]
}

const sorted = (components: readonly Component[]) =>
  components.toSorted((one, other) => severityOf(one) - severityOf(other) || (keyOf(one) < keyOf(other) ? -1 : 1))
