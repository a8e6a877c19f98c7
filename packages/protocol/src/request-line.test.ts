import { expect, it } from 'vitest'
import { requestLine } from './request-line.js'

it('writes the method, the path and the query of a route, and leaves out undefined and null values', () => {
  expect(
    requestLine('GET /projects/:project/turns', { project: 'a' }, { limit: 5, agent: undefined, cursor: null }),
  ).toEqual({ method: 'GET', path: '/api/v1/projects/a/turns?limit=5' })
})

it('encodes parameters, query names and query values', () => {
  expect(requestLine('GET /a/:b/c', { b: '../x?y#z/ü' }, { 'q&': '1=2 &', flag: true }).path).toBe(
    '/api/v1/a/..%2Fx%3Fy%23z%2F%C3%BC/c?q%26=1%3D2%20%26&flag=true',
  )
})

it('[V6.1] sends a byte of a file name that is not UTF-8 as that byte, and replaces any other lone surrogate', () => {
  expect(requestLine('GET /v', {}, { path: '/a\udcff\ud800' }).path).toBe('/api/v1/v?path=%2Fa%FF%EF%BF%BD')
})

it.each(['', '.', '..'])('refuses the parameter "%s", which leads to another route', (b) => {
  expect(() => requestLine('POST /a/:b/stop', { b })).toThrow(`"b" must be an id (got "${b}")`)
  expect(requestLine('GET /a/:b', { b: '%2e%2e' }).path).toBe('/api/v1/a/%252e%252e')
  expect(requestLine('GET /a/:b', { b: '..a' }).path).toBe('/api/v1/a/..a')
})
